"""No module imports, through others, itself: not at import, not in a function, and not for types alone.

A circle means that neither module can be read, tested or moved without the other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("shared", "workers", "beat")


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT / top).with_suffix("").parts).removesuffix(".__init__"): path
        for top in PACKAGES
        for path in (ROOT / top).rglob("*.py")
    }


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Each import of a text, wherever it stands, as module and name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node.module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""


def graph(texts: dict[str, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for module, text in texts.items():
        targets = (f"{base}.{name}" if f"{base}.{name}" in texts else base for base, name in imported(text))
        found[module] = {target for target in targets if target in texts and target != module}
    return found


def circle(texts: dict[str, str]) -> list[str]:
    """The modules of one circle, or nothing."""
    try:
        TopologicalSorter(graph(texts)).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_circle_of_imports() -> None:
    assert circle({module: path.read_text("utf-8") for module, path in modules().items()}) == []


@pytest.mark.parametrize(
    "text",
    ["from p.a import x", "from p import a", "def f():\n    import p.a", "if TYPE_CHECKING:\n    from p.a import x"],
)
def test_the_check_sees_every_kind_of_import(text: str) -> None:
    assert set(circle({"p": "", "p.a": "from p.b import y", "p.b": text})) == {"p.a", "p.b"}
