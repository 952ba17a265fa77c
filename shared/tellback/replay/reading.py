"""The reader of transcript files, one JSON object a line, and the tools that their agents had.

A line without a conversation becomes a `BadLine`; nothing here raises, whatever the file holds. An agent had the tools
that its conversation declares, else those that answered in any conversation of the same domain. A name whose every call
failed with "no such tool" is not a tool, and no guidance must propose it.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, BinaryIO, Final, TypeVar, cast

from tellback.contracts.limits import MAX_NAME_CHARS
from tellback.errors import InvalidInput
from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.observations.tools import parse_tool, parse_tools
from tellback.replay.transcript import BadLine, Conversation, ToolResult, parse_messages
from tellback.sanitize import is_printable

LINE_BYTES: Final = 64 << 20  # the longest line; a replay needs the memory of a few such lines

LABEL_CHARS: Final = 80

TOOLS_MAX: Final = 512  # definitions of one conversation

DOMAINS: Final = ("domain", "env", "environment")  # names of the same field in different data sets


Played = TypeVar("Played")


def read_transcripts(file: BinaryIO) -> Iterator[Conversation | BadLine]:
    """Yield the conversation or the error of each line, in order; blank lines are skipped."""
    labels = _LabelMaker()
    for number, raw in enumerate(_bounded_lines(file), start=1):
        if raw is None:
            yield BadLine(number, f"longer than {LINE_BYTES >> 20} MiB")
        elif raw.strip():
            yield parse_line(number, raw, labels)


def parse_line(number: int, raw: bytes, labels: _LabelMaker | None = None) -> Conversation | BadLine:
    """Parse one line; it never raises, whatever the bytes."""
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
    steps, oddities = parse_messages(cast("list[object]", messages))
    return Conversation(
        number,
        (labels or _LabelMaker()).make_label(number, fields),
        steps,
        oddities,
        reward=_reward_of(fields.get("reward")),
        domain=next((_tool_name(value) for name in DOMAINS if (value := fields.get(name))), ""),
        tools=_declared_tools(fields.get("tools")),
    )


def _reward_of(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number in JSON can be too large for a float
        return None


def _tool_name(value: object) -> str:
    return value[:LABEL_CHARS].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _declared_tools(value: object) -> tuple[dict[str, Any], ...]:
    """Return the valid tool definitions and skip the others."""
    found: list[dict[str, Any]] = []
    for each in cast("list[object]", value)[:TOOLS_MAX] if isinstance(value, list) else []:
        if not isinstance(each, dict):
            continue
        try:
            parse_tool(cast("dict[str, Any]", each))
        except InvalidInput:
            continue
        found.append(cast("dict[str, Any]", each))
    return tuple(found)


class _LabelMaker:
    """Makes unique names for conversations, from `task_id` and `trial` if they are given."""

    def __init__(self) -> None:
        self._taken: set[bytes] = set()  # digests, which take less memory than the labels

    def make_label(self, number: int, fields: dict[str, Any]) -> str:
        parts = [str(fields[name]) for name in ("task_id", "trial") if isinstance(fields.get(name), int | str)]
        label = "-".join(parts).encode("ascii", "replace").decode()
        if not label or len(label) > LABEL_CHARS or not is_printable(label) or self._already_used(label):
            return f"line-{number}"
        return label

    def _already_used(self, label: str) -> bool:
        digest = hashlib.blake2b(label.encode(), digest_size=12).digest()
        known = digest in self._taken or label.startswith("line-")
        self._taken.add(digest)
        return known


def _bounded_lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines with their ends, or None for a line that is too long, which isn't kept in memory."""
    while line := file.readline(LINE_BYTES):
        if len(line) < LINE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while (rest := file.readline(LINE_BYTES)) and not rest.endswith(b"\n"):
            pass
        yield None


NAMES_MAX: Final = 512  # tools of one domain

DOMAINS_MAX: Final = 64


class TranscriptTools:
    """The tools of each domain, collected from all conversations before the first one is played or analysed."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def add_conversation(self, conversation: Conversation) -> None:
        """Add the tools that exist according to a conversation."""
        if conversation.domain not in self._names and len(self._names) >= DOMAINS_MAX:
            return
        names = self._names.setdefault(conversation.domain, {})
        for step in conversation.steps:
            if (
                isinstance(step, ToolResult)
                and step.tool not in names
                and len(names) < NAMES_MAX
                and _tool_exists(step)
            ):
                names[step.tool] = None

    def tools_for(self, conversation: Conversation) -> Sequence[str | dict[str, Any]]:
        """Return the tools that this conversation's agent had: those it declares, otherwise all names of its domain."""
        if conversation.tools:
            declared = parse_tools(conversation.tools)
            return [*conversation.tools, *(name for name in _tool_names(conversation) if name not in declared)]
        return sorted(self._names.get(conversation.domain) or _tool_names(conversation))

    @property
    def names(self) -> list[str]:
        """The names of all tools, sorted."""
        return sorted({name for names in self._names.values() for name in names})


def _tool_names(conversation: Conversation) -> dict[str, None]:
    return {step.tool: None for step in conversation.steps if isinstance(step, ToolResult) and _tool_exists(step)}


def _tool_exists(step: ToolResult) -> bool:
    """Return True if a host could declare the tool's name and its result isn't "no such tool"."""
    if not step.tool.strip() or len(step.tool) > MAX_NAME_CHARS:
        return False
    return classify(build_evidence(step.tool, step.params, step.result, None), {}).code != "unknown_tool"


def play_in_threads(
    file: BinaryIO,
    threads: int,
    play: Callable[[Conversation], Callable[[], Played]],
    finished: Callable[[Sequence[Played]], None],
    bad: Callable[[BadLine], None],
) -> None:
    """Play each conversation of a file in one of the threads; only twice as many are in memory.

    `play` returns the work of one conversation. `play`, `finished` and `bad` are called in the calling thread.
    """
    running: set[Future[Played]] = set()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="replay")
    try:
        for item in read_transcripts(file):
            if isinstance(item, BadLine):
                bad(item)
                continue
            running.add(pool.submit(play(item)))
            while len(running) >= 2 * threads:
                running = _collect_finished(running, finished)
        while running:
            running = _collect_finished(running, finished)
    finally:
        pool.shutdown(cancel_futures=True)


def _collect_finished(
    running: set[Future[Played]], finished: Callable[[Sequence[Played]], None]
) -> set[Future[Played]]:
    done, left = wait(running, return_when=FIRST_COMPLETED)
    finished([future.result() for future in done])
    return left
