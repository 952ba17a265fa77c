"""What a report keeps: cards of the conversations that got the most guidance, and figures of all of them. Bounded."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from tellback.contracts.guidance import Code, Severity
from tellback.guidance.attempts import normal_text
from tellback.guidance.observations.values import shown
from tellback.redaction import redact_value
from tellback.replay.accounts import Account, Observed, Said
from tellback.replay.transcript import BadLine

TOP: Final = 200  # conversations that are shown one by one
ENTRIES_MAX: Final = 300  # messages and calls of one
TEXT_MAX: Final = 1_500
ARGUMENTS_MAX: Final = 300
SHAPES_MAX: Final = 60
BAD_MAX: Final = 20

Group = Literal["solved", "not solved", "unknown"]
GROUPS: Final[tuple[Group, ...]] = ("solved", "not solved", "unknown")
_IDS: Final = re.compile(r"\w*\d\w*(?:[-:/.]\w*\d\w*)*")


@dataclass(frozen=True, slots=True)
class Nudge:
    """Feedback as it would have been read."""

    provider: str
    severity: Severity
    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A message, or a tool call with its guidance. `index` counts the calls from 1; 0 for messages."""

    kind: Literal["user", "agent", "call"]
    position: int
    text: str
    index: int = 0
    tool: str = ""
    arguments: str = ""
    code: Code = "ok"
    status: str = ""
    headline: str = ""
    steps: tuple[str, ...] = ()
    nudges: tuple[Nudge, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A conversation as a report shows it; `left_out` are entries beyond those that are shown."""

    line: int
    label: str
    reward: float | None
    group: Group
    calls: int
    errors: int
    nudges: int
    first_nudge: int | None
    lines: tuple[Line, ...]
    left_out: int = 0


@dataclass(slots=True)
class Figures:
    """Numbers of one group of conversations."""

    conversations: int = 0
    calls: int = 0
    errors: int = 0
    nudges: int = 0
    nudged: int = 0

    @property
    def per_call(self) -> float:
        """Nudges a tool call."""
        return self.nudges / self.calls if self.calls else 0.0


@dataclass(slots=True)
class Named:
    """A shape of error: how often it came, what it was called, and one of them."""

    tool: str
    code: Code
    headline: str
    example: str
    count: int = 0


@dataclass(slots=True)
class Digest:
    """Everything that a report tells. Memory follows `top`, not the file."""

    source: str
    top: int = TOP
    groups: dict[Group, Figures] = field(default_factory=lambda: {group: Figures() for group in GROUPS})
    providers: dict[str, Counter[Group]] = field(default_factory=dict[str, Counter[Group]])
    codes: Counter[Code] = field(default_factory=Counter[Code])
    suggestions: Counter[str] = field(default_factory=Counter[str])
    errors: dict[tuple[str, str], Named] = field(default_factory=dict[tuple[str, str], Named])
    errors_beyond: int = 0
    tools: list[str] = field(default_factory=list[str])
    bad: list[BadLine] = field(default_factory=list[BadLine])
    bad_beyond: int = 0
    _kept: list[tuple[tuple[int, int, int], Card]] = field(default_factory=list[tuple[tuple[int, int, int], Card]])

    @property
    def whole(self) -> Figures:
        """All groups together."""
        total = Figures()
        for group in self.groups.values():
            total.conversations += group.conversations
            total.calls += group.calls
            total.errors += group.errors
            total.nudges += group.nudges
            total.nudged += group.nudged
        return total

    @property
    def cards(self) -> list[Card]:
        """The conversations that are shown, in the file's order."""
        return sorted((card for _, card in self._kept), key=lambda card: card.line)

    @property
    def left_out(self) -> int:
        """Conversations that are counted but not shown."""
        return self.whole.conversations - len(self._kept)

    def add_bad(self, line: BadLine) -> None:
        """Note a line that holds no conversation."""
        if len(self.bad) < BAD_MAX:
            self.bad.append(line)
        else:
            self.bad_beyond += 1

    def add(self, account: Account) -> None:
        """Count a conversation, and keep its card if it is among those with the most guidance."""
        calls, nudges = account.calls, account.nudges
        errors = sum(call.failed for call in calls)
        group = group_of(account)
        figures = self.groups[group]
        figures.conversations += 1
        figures.calls += len(calls)
        figures.errors += errors
        figures.nudges += len(nudges)
        figures.nudged += bool(nudges)
        for nudge in nudges:
            self.providers.setdefault(nudge.provider_name, Counter())[group] += 1
        for call in calls:
            self._count(call)
        line = account.conversation.line
        rank = (len(nudges), errors, -line)
        if len(self._kept) < self.top:
            heapq.heappush(self._kept, (rank, card_of(account)))
        elif self._kept and rank > self._kept[0][0]:
            heapq.heapreplace(self._kept, (rank, card_of(account)))

    def _count(self, call: Observed) -> None:
        self.codes[call.code] += 1
        envelope = call.seen.envelope
        self.suggestions.update(step.kind for step in (envelope.suggestions if envelope else ()))
        if not call.failed:
            return
        key = (call.step.tool, _IDS.sub("…", call.step.result[:200]))
        if key not in self.errors:
            if len(self.errors) >= SHAPES_MAX:
                self.errors_beyond += 1
                return
            self.errors[key] = Named(
                call.step.tool, call.code, call.seen.status_line, cut(shown(call.step.result), 200)
            )
        self.errors[key].count += 1


def group_of(account: Account) -> Group:
    """Whether the transcript says that the task was solved."""
    solved = account.conversation.solved
    return "unknown" if solved is None else "solved" if solved else "not solved"


def card_of(account: Account) -> Card:
    """The conversation with all texts cut, and without known secrets: a report goes to others."""
    talk = account.conversation
    calls, nudges = account.calls, account.nudges
    return Card(
        line=talk.line,
        label=talk.label,
        reward=talk.reward,
        group=group_of(account),
        calls=len(calls),
        errors=sum(call.failed for call in calls),
        nudges=len(nudges),
        first_nudge=nudges[0].call_index if nudges else None,
        lines=tuple(_lines(account.entries[:ENTRIES_MAX])),
        left_out=max(0, len(account.entries) - ENTRIES_MAX),
    )


def _lines(entries: Iterable[Said | Observed]) -> Iterator[Line]:
    for entry in entries:
        if isinstance(entry, Said):
            yield Line("user" if entry.who == "user" else "agent", entry.position, cut(shown(entry.text)))
            continue
        yield Line(
            "call",
            entry.position,
            cut(entry.seen.to_observation()),
            index=entry.index,
            tool=entry.step.tool[:200],
            arguments=cut(normal_arguments(entry), ARGUMENTS_MAX),
            code=entry.code,
            status=entry.seen.status,
            headline=entry.seen.status_line,
            steps=tuple(cut(step, 400) for step in entry.seen.suggestions),
            nudges=tuple(
                Nudge(each.provider_name, each.severity, cut(each.summary, 400), cut(each.render()))
                for each in entry.nudges
            ),
        )


def normal_arguments(call: Observed) -> str:
    """The arguments as JSON, in the form in which calls are compared, without known secrets."""
    return normal_text(redact_value(call.step.params)).decode("utf-8", "replace")


def cut(text: str, limit: int = TEXT_MAX) -> str:
    """The text's beginning, with how much is left out; its middle where the end says what to do next."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]} …[{len(text) - limit} characters left out]… {text[-tail:]}"
