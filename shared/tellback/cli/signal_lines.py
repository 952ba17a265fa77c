"""Lines of a file of signals: read within bounds, numbered, and made into signals, or into a reason why not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple

import msgspec

from tellback.contracts.signals import SignalItem
from tellback.errors import InvalidInput
from tellback.signals.validation import check_item, check_name

MAX_LINE: Final = 1 << 20
"""Bytes: query and remark have at most 64 KB each, whatever their escapes."""
_BOM: Final = b"\xef\xbb\xbf"
_SHOWN: Final = 2_048


class Line(NamedTuple):
    """A line with its number from 1; `digest` is that of the file up to its `end`.

    `ended` is False for a last line without a line end; of one above `MAX_LINE` bytes `raw` is the beginning.
    """

    number: int
    raw: bytes
    length: int
    ended: bool
    end: int
    digest: str

    @property
    def text(self) -> str:
        """What a person is shown of it."""
        return self.raw.strip().decode("utf-8", "replace")[:_SHOWN]


class _Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal as a line has it: it may name its bank. What the values may be is checked as `Bank.signal` does."""

    fact_id: str
    signal_type: Any
    query: str
    confidence: float = 1.0
    context: str | None = None
    signal_id: str = ""
    bank: str | None = None


def digest_of_nothing() -> Any:
    """What the digest of a file is made with."""
    return hashlib.blake2b(digest_size=16)


def lines_of(source: IO[bytes], digest: Any, number: int = 0, offset: int = 0) -> Iterator[Line]:
    """The lines after `number` and `offset`, to which `digest` was made; memory is bounded, whatever they are."""
    while raw := source.readline(MAX_LINE + 1):
        length, ended = len(raw), raw.endswith(b"\n")
        digest.update(raw)
        while not ended and (part := source.readline(MAX_LINE)):
            length, ended = length + len(part), part.endswith(b"\n")
            digest.update(part)
        number, offset = number + 1, offset + length
        shown = raw.removeprefix(_BOM) if number == 1 else raw
        yield Line(number, shown, length, ended, offset, digest.hexdigest())


def signal_of(line: Line, default_bank: str | None) -> tuple[str, SignalItem]:
    """The bank and the signal of a line.

    Raises:
        InvalidInput: it is no valid signal; the message names the field.
    """
    if line.length > MAX_LINE:
        raise InvalidInput(f"the line has {line.length} bytes: use at most {MAX_LINE}")
    if line.number == 1 and line.raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput("the file begins with the mark of UTF-16: write it as UTF-8")
    if line.number == 1 and line.raw.startswith(b"\x1f\x8b"):
        raise InvalidInput("the file is compressed: unpack it, or use zcat FILE | tellback signal -")
    fields = _decoded(line.raw)
    bank = default_bank if fields.bank is None else fields.bank
    if bank is None:
        raise InvalidInput('no bank: name one in the field "bank", or all lines\' in --bank')
    item = SignalItem(**{name: getattr(fields, name) for name in SignalItem.__struct_fields__})
    check_item(item, "signal")
    check_name(bank, "signal.bank")
    check_name(item.fact_id, "signal.fact_id")
    if item.signal_id:
        check_name(item.signal_id, "signal.signal_id")
    return bank, item


def _decoded(raw: bytes) -> _Fields:
    try:
        fields = msgspec.json.decode(raw, type=_Fields)
        json.loads(raw, object_pairs_hook=_unique)  # msgspec would take the last of two
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InvalidInput(str(error)) from error
    return fields


def _unique(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInput(f"the field {twice!r} comes twice")
