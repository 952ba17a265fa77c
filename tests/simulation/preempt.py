"""Preemption between statements: a copy of a module in which every statement may be preceded by a switch.

Round trips and locks are the switches of all other code; a copy is for code whose races lie between two plain lines.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib import import_module
from types import ModuleType

from tests.simulation.threads import current_scheduler


class _BeforeEachStatement(ast.NodeTransformer):
    """Puts a call before each statement of each function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body = self._with_calls(node.body)
        return node

    def _with_calls(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in body:
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(statement, name, None)
                if inner and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                    setattr(statement, name, self._with_calls(inner))
            call = ast.Expr(ast.Call(ast.Name("__switch__", ast.Load()), [], []))
            found += [ast.copy_location(call, statement), statement]
        return found


def _switch() -> None:
    running = current_scheduler()
    if running is not None:
        running.maybe_switch()


@cache
def preemptible(name: str) -> ModuleType:
    """Return a copy of a module that may switch before every statement of its functions.

    The scheduler's `switch_chance` is the probability of each switch.
    """
    module = import_module(name)
    tree = _BeforeEachStatement().visit(ast.parse(inspect.getsource(module)))
    copy = ModuleType(module.__name__)
    copy.__dict__.update(__file__=module.__file__, __switch__=_switch)
    code = compile(ast.fix_missing_locations(tree), str(module.__file__), "exec")
    exec(code, copy.__dict__)
    return copy
