"""Sanitising and truncation have one home each; a second place would have rules of its own and none of the tests."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "shared" / "tellback"
SOURCES: Final = sorted(path for top in ("shared", "workers", "beat", "ops") for path in (ROOT / top).rglob("*.py"))
SANITIZE: Final = PACKAGE / "sanitize.py"
TRUNCATION: Final = PACKAGE / "truncation.py"

# Modules whose functions make text safe, and functions that find which characters are printable.
ESCAPERS: Final = {"html", "rich.markup", "xml.sax.saxutils"}
PRINTERS: Final = {".isprintable", ".category", "unicodedata.category"}
STANDALONE: Final = PACKAGE / "commands" / "project"  # copied into projects that do not have Tellback


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a node imports or calls, as `module.name` or `.method`."""
    if isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield f".{node.attr}"


def _sanitizes(node: ast.AST) -> bool:
    """Escape, or look for control characters or terminal sequences."""
    for name in _names(node):
        if name in PRINTERS or name.rpartition(".")[0] in ESCAPERS or name in ESCAPERS:
            return True
    if not isinstance(node, ast.Constant):
        return False
    escape = isinstance(node.value, str) and ("\x1b" in node.value or "\\x1b" in node.value)
    return escape or node.value in {"unicode_escape", "backslashreplace"}


def _is_slice(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)


def _truncates(node: ast.AST) -> bool:
    """Put an ellipsis beside a slice, or decode bytes that may have been cut within a character."""
    if isinstance(node, ast.JoinedStr):
        slices = any(_is_slice(part) for part in ast.walk(node))
        return slices and any("…" in str(part.value) for part in node.values if isinstance(part, ast.Constant))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = (node.left, node.right)
        marked = any(isinstance(side, ast.Constant) and side.value in {"…", "..."} for side in sides)
        return marked and any(_is_slice(part) for part in ast.walk(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decode":
        return any(isinstance(part, ast.Constant) and part.value == "ignore" for part in ast.walk(node))
    return False


def _prints_unsanitized(node: ast.AST) -> bool:
    """Print through typer, or give Rich an f-string with a name in it, in which brackets are markup."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    if isinstance(owner, ast.Name) and owner.id in {"typer", "click"} and node.func.attr in {"echo", "secho"}:
        return True
    return node.func.attr in {"print", "add_row", "update"} and any(
        isinstance(part, ast.FormattedValue) and part.format_spec is None  # numbers have a format here
        for argument in node.args
        if isinstance(argument, ast.JoinedStr)
        for part in argument.values
    )


def _found(test: Callable[[ast.AST], bool], *homes: Path, among: Path = ROOT) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        for path in SOURCES
        if path not in homes and STANDALONE not in path.parents and path.is_relative_to(among)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if test(node)
    ]


def test_text_is_sanitized_in_one_module() -> None:
    # `truncation` asks for combining marks, so as not to cut a letter from its accents. `escapes`, `redactor` and
    # `quoting` know more sequences than programs print, since hostile text hides words in them, and `lookalikes`
    # compares letters as a reader sees them. `setup` writes its own colours, before there is an environment to import
    # from.
    others = (
        *(PACKAGE / "redaction" / f"{name}.py" for name in ("escapes", "redactor")),
        *(PACKAGE / f"{name}.py" for name in ("quoting", "lookalikes")),
        ROOT / "ops" / "setup.py",
    )
    homes = (SANITIZE, TRUNCATION, *others)
    assert _found(_sanitizes, *homes) == [], f"use a function of {SANITIZE.relative_to(ROOT)}"


def test_text_is_truncated_in_one_module() -> None:
    errors = PACKAGE / "errors.py"  # bounds its own messages: it imports nothing of ours, since everything imports it
    assert _found(_truncates, TRUNCATION, errors) == [], f"use a function of {TRUNCATION.relative_to(ROOT)}"


def test_the_command_line_prints_through_its_own_functions() -> None:
    homes = (PACKAGE / "cli" / "common.py",)
    assert _found(_prints_unsanitized, *homes, among=PACKAGE / "cli") == [], "use `echo` or `plain_text` of cli.common"


@pytest.mark.parametrize(
    ("test", "code"),
    [
        (_sanitizes, "from rich.markup import escape"),
        (_sanitizes, "import html"),
        (_sanitizes, "from html import escape"),
        (_sanitizes, "from unicodedata import category"),
        (_sanitizes, "unicodedata.category(char)"),
        (_sanitizes, "char.isprintable()"),
        (_sanitizes, "char.encode('unicode_escape')"),
        (_sanitizes, r"re.compile(r'\x1b\[[0-9;]*m')"),
        (_sanitizes, r"text.split('\x1b')"),
        (_truncates, "f'{text[:9]}…'"),
        (_truncates, "text[:9] + '…'"),
        (_truncates, "text[:9].rstrip() + '…'"),
        (_truncates, "raw[:9].decode('utf-8', 'ignore')"),
        (_truncates, "raw[:9].decode(errors='ignore')"),
        (_prints_unsanitized, "typer.echo('x')"),
        (_prints_unsanitized, "console.print(f'{name}')"),
        (_prints_unsanitized, "table.add_row('x', f'{name}')"),
    ],
)
def test_a_second_place_is_found(test: Callable[[ast.AST], bool], code: str) -> None:
    assert any(map(test, ast.walk(ast.parse(code))))
