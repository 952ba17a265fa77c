"""Acts of other processes at the worst moment: between the reply to one command and the next command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tellback.state.database import Database
from tellback.state.script_calls import Arg, Command


class Interrupted(Database):
    """A client of which others take advantage: `meanwhile` is called once, after the first reply to a `verb`."""

    def __init__(self, url: str, verb: str, meanwhile: Callable[[], object]) -> None:
        super().__init__(url)
        self._verb = verb
        self._meanwhile: Callable[[], object] | None = meanwhile

    @property
    def interrupted(self) -> bool:
        return self._meanwhile is None

    def command(self, *parts: Arg) -> Any:
        reply = super().command(*parts)
        self._after([parts])
        return reply

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True, repeat: bool = True) -> list[Any]:
        replies = super().pipeline(commands, raise_on_error=raise_on_error, repeat=repeat)
        self._after(commands)
        return replies

    def _after(self, commands: Sequence[Command]) -> None:
        meanwhile = self._meanwhile
        if meanwhile is not None and any(command[0] == self._verb for command in commands):
            self._meanwhile = None
            meanwhile()
