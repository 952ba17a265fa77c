"""A file of transcripts, one JSON object a line, to conversations; what holds none is told of and passed over."""

from __future__ import annotations

import codecs
import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, cast

from tellback.errors import InvalidInput
from tellback.guidance.observations.tools import tool_of
from tellback.replay.messages import steps_of
from tellback.replay.transcript import BadLine, Conversation

LINE_BYTES: Final = 64 << 20  # what one line may hold; memory while replaying is a few of these
LABEL_CHARS: Final = 80
TOOLS_MAX: Final = 512  # definitions of one conversation
DOMAINS: Final = ("domain", "env", "environment")


def read(file: BinaryIO) -> Iterator[Conversation | BadLine]:
    """What each line of `file` holds, in order; blank lines are passed over."""
    labels = _Labels()
    for number, raw in enumerate(_lines(file), start=1):
        if raw is None:
            yield BadLine(number, f"longer than {LINE_BYTES >> 20} MiB")
        elif raw.strip():
            yield parse(number, raw, labels)


def parse(number: int, raw: bytes, labels: _Labels | None = None) -> Conversation | BadLine:
    """What one line holds. Never raises, whatever the bytes."""
    try:
        value: object = json.loads(raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        torn = "" if raw.endswith(b"\n") else "; the file ends inside this line"
        return BadLine(number, f"not JSON: {str(error) or type(error).__name__}{torn}")
    if not isinstance(value, dict):
        return BadLine(number, "not a JSON object with `messages`")
    fields = cast("dict[str, Any]", value)
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        return BadLine(number, "no list of `messages` in it")
    steps, oddities = steps_of(cast("list[object]", messages))
    return Conversation(
        number,
        (labels or _Labels()).unique(number, fields),
        steps,
        oddities,
        reward=_reward(fields.get("reward")),
        domain=next((_name(value) for name in DOMAINS if (value := fields.get(name))), ""),
        tools=_tools(fields.get("tools")),
    )


def _reward(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON has whole numbers of any length
        return None


def _name(value: object) -> str:
    return value[:LABEL_CHARS].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _tools(value: object) -> tuple[dict[str, Any], ...]:
    """The definitions of tools that have a name; what is none is passed over."""
    found: list[dict[str, Any]] = []
    for each in cast("list[object]", value)[:TOOLS_MAX] if isinstance(value, list) else []:
        if not isinstance(each, dict):
            continue
        try:
            tool_of(cast("dict[str, Any]", each))
        except InvalidInput:
            continue
        found.append(cast("dict[str, Any]", each))
    return tuple(found)


class _Labels:
    """Names of conversations, from `task_id` and `trial` where they say which it is."""

    def __init__(self) -> None:
        self._taken: set[bytes] = set()

    def unique(self, number: int, fields: dict[str, Any]) -> str:
        parts = [str(fields[name]) for name in ("task_id", "trial") if isinstance(fields.get(name), int | str)]
        label = "-".join(parts).encode("ascii", "replace").decode()
        if not label or len(label) > LABEL_CHARS or not label.isprintable() or self._known(label):
            return f"line-{number}"
        return label

    def _known(self, label: str) -> bool:
        digest = hashlib.blake2b(label.encode(), digest_size=12).digest()
        known = digest in self._taken or label.startswith("line-")
        self._taken.add(digest)
        return known


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """The lines with their ends; None for one that is too long, which is not kept in memory."""
    while line := file.readline(LINE_BYTES):
        if len(line) < LINE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while (rest := file.readline(LINE_BYTES)) and not rest.endswith(b"\n"):
            pass
        yield None
