"""Writes `__init__.pyi`: the types of `tellback.aio`, from the source of the client's classes.

python -m tellback.aio.stubs shared/tellback/aio/__init__.pyi
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import Any, Final

from tellback.aio.proxy import ASKING, AT_ONCE, LEFT_OUT, WRAPPED, is_iterator
from tellback.client.signal_session import SignalSession
from tellback.client.signals import Bank

_HEAD: Final = "# The types of `tellback.aio`. Made by `python -m tellback.aio.stubs`; do not edit.\n\n"
_CONNECT: Final = """
class Connecting:
    def __await__(self) -> Generator[Any, None, Tellback]: ...
    async def __aenter__(self) -> Tellback: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def connect(
    url: str | None = None, *, team: str | None = None, settings: Settings | None = None, threads: int = 32
) -> Connecting: ...
"""
_ENTERED: Final = [
    "    async def __aenter__(self) -> Self: ...",
    "    async def __aexit__(",
    "        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None",
    "    ) -> None: ...",
]
_ALWAYS: Final = {
    "AsyncIterator": "collections.abc",
    "Awaitable": "collections.abc",
    "Generator": "collections.abc",
    "TracebackType": "types",
    "Any": "typing",
    "Self": "typing",
    "Settings": "tellback.settings",
}


def stub() -> str:
    """The text of the stub."""
    ours = {cls.__name__ for cls in WRAPPED}
    found: set[tuple[str, str]] = set()
    texts: list[str] = []
    for cls in WRAPPED:
        texts.append(_class(cls))
        known = {**_imported(cls), **_ALWAYS}
        found |= {(known[name], name) for name in _names(texts[-1]) & known.keys() - ours}
    found |= {(_ALWAYS[name], name) for name in _names(_CONNECT) & _ALWAYS.keys()}
    modules = sorted(
        {module for module, _ in found}, key=lambda module: (module.startswith("tellback"), module != "", module)
    )
    lines = [_line(module, sorted(name for at, name in found if at == module)) for module in modules]
    return _HEAD + "\n".join([*lines, *texts, _CONNECT])


def _names(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _line(module: str, names: list[str]) -> str:
    return f"from {module} import {', '.join(names)}" if module else "\n".join(f"import {name}" for name in names)


def _imported(cls: type[Any]) -> dict[str, str]:
    """Each name that the module of a class imports or defines -> where it is imported from, or nothing for a module."""
    module = inspect.getmodule(cls)
    assert module is not None
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name: "" for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            found[node.name] = module.__name__
    return found


def _class(cls: type[Any]) -> str:
    (definition,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(definition, ast.ClassDef)
    lines = [f"\nclass {cls.__name__}:"]
    if cls is Bank:
        lines += _attribute("name", "str")
    if cls is SignalSession:
        lines += [*_attribute("session", "str"), *_ENTERED]
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            lines += _attribute(node.target.id, ast.unparse(node.annotation))
        elif isinstance(node, ast.FunctionDef) and node.name[0] != "_" and (cls, node.name) not in LEFT_OUT:
            lines += _function(cls, node)
    return "\n".join(lines)


def _attribute(name: str, annotation: str) -> list[str]:
    return ["    @property", f"    def {name}(self) -> {annotation}: ..."]


def _function(cls: type[Any], node: ast.FunctionDef) -> list[str]:
    returned = ast.unparse(node.returns) if node.returns else "None"
    if node.decorator_list:
        asking = (cls, node.name) in ASKING
        return _attribute(node.name, f"Awaitable[{returned}]" if asking else returned)
    arguments = node.args
    arguments.defaults = [_shown(default) for default in arguments.defaults]
    arguments.kw_defaults = [None if default is None else _shown(default) for default in arguments.kw_defaults]
    if is_iterator(getattr(cls, node.name)):
        item = returned.partition("[")[2].removesuffix("]").partition(",")[0]
        return [f"    def {node.name}({ast.unparse(arguments)}) -> AsyncIterator[{item}]: ..."]
    if (cls, node.name) in AT_ONCE:
        return [f"    def {node.name}({ast.unparse(arguments)}) -> {returned}: ..."]
    return [f"    async def {node.name}({ast.unparse(arguments)}) -> {returned}: ..."]


def _shown(default: ast.expr) -> ast.expr:
    """A plain value as it is; else dots, since a stub has no other names of that module."""
    return default if isinstance(default, ast.Constant) else ast.Constant(...)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(stub(), "utf-8")
