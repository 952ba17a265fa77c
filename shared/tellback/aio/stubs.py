"""The generator of `__init__.pyi`: types for `tellback.aio`, taken from the source of the client's classes.

Run `make generate` after you change a signature of the client. It reads the source because runtime
signatures have lost the names that annotations use.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import Any, Final

from tellback.aio.proxy import AWAITED_PROPERTIES, NONBLOCKING, OMITTED, WRAPPED_CLASSES, is_iterator
from tellback.client.signal_session import SignalSession

_HEAD: Final = "# The types of `tellback.aio`. Made by `python -m tellback.aio.stubs`; do not edit.\n\n"
# `connect` isn't a method of the client, so its types are written out here.
_CONNECT: Final = """
class PendingConnection:
    def __await__(self) -> Generator[Any, None, Tellback]: ...
    async def __aenter__(self) -> Tellback: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def connect(
    url: str | None = None, *, team: str | None = None, settings: Settings | None = None, threads: int = 32
) -> PendingConnection: ...
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


def render_stub() -> str:
    """Return the text of the stub."""
    ours = {cls.__name__ for cls in WRAPPED_CLASSES}
    found: set[tuple[str, str]] = set()
    texts: list[str] = []
    for cls in WRAPPED_CLASSES:
        texts.append(_render_class(cls))
        known = {**_imported_names(cls), **_ALWAYS}
        found |= {(known[name], name) for name in _names_used(texts[-1]) & known.keys() - ours}
    found |= {(_ALWAYS[name], name) for name in _names_used(_CONNECT) & _ALWAYS.keys()}
    modules = sorted(
        {module for module, _ in found}, key=lambda module: (module.startswith("tellback"), module != "", module)
    )
    lines = [_import_line(module, sorted(name for at, name in found if at == module)) for module in modules]
    return _HEAD + "\n".join([*lines, *texts, _CONNECT])


def _names_used(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _import_line(module: str, names: list[str]) -> str:
    return f"from {module} import {', '.join(names)}" if module else "\n".join(f"import {name}" for name in names)


def _imported_names(cls: type[Any]) -> dict[str, str]:
    """Return where to import each name that a class's module uses; "" for a name that is itself a module."""
    module = inspect.getmodule(cls)
    assert module is not None
    found: dict[str, str] = {}
    # `ast.walk` also finds the imports below `if TYPE_CHECKING`, whose names annotations use.
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name: "" for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            found[node.name] = module.__name__
    return found


def _render_class(cls: type[Any]) -> str:
    (definition,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(definition, ast.ClassDef)
    lines = [f"\nclass {cls.__name__}:"]
    if cls is SignalSession:
        lines += _ENTERED
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            lines += _render_attribute(node.target.id, ast.unparse(node.annotation))
        elif isinstance(node, ast.FunctionDef) and node.name[0] != "_" and (cls, node.name) not in OMITTED:
            lines += _render_function(cls, node)
    return "\n".join(lines)


def _render_attribute(name: str, annotation: str) -> list[str]:
    return ["    @property", f"    def {name}(self) -> {annotation}: ..."]


def _render_function(cls: type[Any], node: ast.FunctionDef) -> list[str]:
    returned = ast.unparse(node.returns) if node.returns else "None"
    if node.decorator_list:
        asking = (cls, node.name) in AWAITED_PROPERTIES
        return _render_attribute(node.name, f"Awaitable[{returned}]" if asking else returned)
    arguments = node.args
    arguments.defaults = [_default_value(default) for default in arguments.defaults]
    arguments.kw_defaults = [None if default is None else _default_value(default) for default in arguments.kw_defaults]
    if is_iterator(getattr(cls, node.name)):
        item = returned.partition("[")[2].removesuffix("]").partition(",")[0]
        return [f"    def {node.name}({ast.unparse(arguments)}) -> AsyncIterator[{item}]: ..."]
    if (cls, node.name) in NONBLOCKING:
        return [f"    def {node.name}({ast.unparse(arguments)}) -> {returned}: ..."]
    return [f"    async def {node.name}({ast.unparse(arguments)}) -> {returned}: ..."]


def _default_value(default: ast.expr) -> ast.expr:
    """Return a literal default as it is, otherwise `...`: the stub doesn't import the names that a default may use."""
    return default if isinstance(default, ast.Constant) else ast.Constant(...)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_stub(), "utf-8")
