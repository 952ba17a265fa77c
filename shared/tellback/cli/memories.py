"""What `tellback bank` does with the facts that a bank holds: tell it one, have it forget one, list them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import typer

from tellback.cli.common import show
from tellback.cli.recall import shortened
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.client.connection import Tellback

_COLUMNS: Final = ("at", "fact_id", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The options of `tellback bank` about facts that a bank holds; `listed` is how many to list."""

    remember: str | None = None
    text: str | None = None
    forget: str | None = None
    listed: int | None = None

    @property
    def given(self) -> bool:
        """Whether one of them is."""
        return self != Holding()

    def do(self, tb: Tellback, bank: str, *, as_json: bool) -> None:
        """Do what they say.

        Raises:
            InvalidInput: they do not go together, or there is no text of a fact.
        """
        if sum(each is not None for each in (self.remember, self.forget, self.listed)) != 1:
            raise InvalidInput("give one of --remember, --forget and --remembered; --text goes with --remember")
        if self.remember is not None:
            _remember(tb, bank, self.remember, self.text)
        elif self.text is not None:
            raise InvalidInput("--text goes with --remember")
        elif self.forget is not None:
            _forget(tb, bank, self.forget)
        elif self.listed is not None:
            _list(tb, bank, self.listed, as_json=as_json)


def _remember(tb: Tellback, bank: str, fact_id: str, text: str | None) -> None:
    if text is None:
        raise InvalidInput("--remember needs the fact's text: --text TEXT, or --text - for standard input")
    tb.bank(bank).remember(fact_id, _stdin() if text == "-" else text)
    _published(tb, f"fact {fact_id} of bank {bank} is to be remembered")


def _forget(tb: Tellback, bank: str, fact_id: str) -> None:
    tb.bank(bank).forget(fact_id)
    _published(tb, f"fact {fact_id} of bank {bank} is to be forgotten; what signals made of it stays")


def _list(tb: Tellback, bank: str, limit: int, *, as_json: bool) -> None:
    from tellback.state.memories import MemoryStore

    found = MemoryStore(tb.context.database, tb.context.layout.of(bank), bank).newest(limit)
    rows = [
        {"at": memory.at, "fact_id": memory.fact_id, "text": memory.text if as_json else shortened(memory.text)}
        for memory in found
    ]
    show(rows, as_json=as_json, columns=_COLUMNS, title=f"Facts of {bank}")


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input is not UTF-8: byte {error.start + 1}") from None


def _published(tb: Tellback, done: str) -> None:
    tb.flush()
    spooled = "; Redis is away, and the host's spool keeps this until it is back" if tb.spooled else ""
    typer.echo(f"{done}: workers apply it shortly{spooled}")
