"""The analysis of a whole file in this process, and the bounded digest that reports are made from.

The file is read twice, because the tools must be known before the first conversation is analysed. The digest keeps
figures of all conversations, and cards of those with the most guidance, so its memory doesn't grow with the file.
"""

from __future__ import annotations

import heapq
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Literal, cast

from tellback.contracts.guidance import OutcomeCode, Severity
from tellback.guidance.observations.values import display_text
from tellback.guidance.repeats import normalized_arguments_json
from tellback.quoting import QUOTE, quote_forged_lines, quote_value, resembles_ours
from tellback.redaction import redact_value
from tellback.replay.accounts import GuidanceAnalyzer, GuidedConversation, ObservedCall, TranscriptText
from tellback.replay.reading import TranscriptTools, read_transcripts
from tellback.replay.transcript import BadLine
from tellback.truncation import truncate_middle

TOP: Final = 200  # conversations that get a card

ENTRIES_MAX: Final = 300  # messages and calls on a card

TEXT_MAX: Final = 1_500  # characters

ARGUMENTS_MAX: Final = 300  # characters

SHAPES_MAX: Final = 60  # rows in the table of errors

BAD_LINES_MAX: Final = 20

Group = Literal["solved", "not solved", "unknown"]

GROUPS: Final[tuple[Group, ...]] = ("solved", "not solved", "unknown")

# Words with a digit in them, such as ids, dates and amounts. Without them, errors that differ only in numbers have the
# same shape and are counted as one row.
_IDS: Final = re.compile(r"\w*\d\w*(?:[-:/.]\w*\d\w*)*")


@dataclass(frozen=True, slots=True)
class ReportedFeedback:
    """Feedback as the agent would have read it."""

    provider: str
    severity: Severity
    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A message or a tool call with its guidance. `index` counts the calls from 1; messages have 0."""

    kind: Literal["user", "agent", "call"]
    position: int
    text: str
    index: int = 0
    tool: str = ""
    arguments: str = ""
    code: OutcomeCode = "ok"
    status: str = ""
    headline: str = ""
    steps: tuple[str, ...] = ()
    nudges: tuple[ReportedFeedback, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationCard:
    """A conversation as a report shows it; `left_out` is the number of entries beyond those shown."""

    line: int
    label: str
    reward: float | None
    group: Group
    calls: int
    errors: int
    nudges: int
    first_nudge: int | None
    lines: tuple[ReportLine, ...]
    left_out: int = 0


@dataclass(slots=True)
class GroupFigures:
    """The figures of one group of conversations; a nudge is one feedback of a provider."""

    conversations: int = 0
    calls: int = 0
    errors: int = 0
    nudges: int = 0
    nudged: int = 0

    @property
    def per_call(self) -> float:
        """The nudges per tool call."""
        return self.nudges / self.calls if self.calls else 0.0


@dataclass(slots=True)
class ErrorShape:
    """A shape of error: its tool, its outcome and headline, an example, and how often it occurred."""

    tool: str
    code: OutcomeCode
    headline: str
    example: str
    count: int = 0


@dataclass(slots=True)
class AnalysisDigest:
    """All data of a report; its memory depends on `top`, not on the file."""

    source: str
    top: int = TOP
    groups: dict[Group, GroupFigures] = field(default_factory=lambda: {group: GroupFigures() for group in GROUPS})
    providers: dict[str, Counter[Group]] = field(default_factory=dict[str, Counter[Group]])
    codes: Counter[OutcomeCode] = field(default_factory=Counter[OutcomeCode])
    suggestions: Counter[str] = field(default_factory=Counter[str])
    errors: dict[tuple[str, str], ErrorShape] = field(default_factory=dict[tuple[str, str], ErrorShape])
    errors_beyond: int = 0
    tools: list[str] = field(default_factory=list[str])
    bad: list[BadLine] = field(default_factory=list[BadLine])
    bad_beyond: int = 0
    _kept: list[tuple[tuple[int, int, int], ConversationCard]] = field(
        default_factory=list[tuple[tuple[int, int, int], ConversationCard]]
    )

    @property
    def totals(self) -> GroupFigures:
        """The figures of all groups together."""
        total = GroupFigures()
        for group in self.groups.values():
            total.conversations += group.conversations
            total.calls += group.calls
            total.errors += group.errors
            total.nudges += group.nudges
            total.nudged += group.nudged
        return total

    @property
    def cards(self) -> list[ConversationCard]:
        """The cards of the shown conversations, those with the most nudges first; equal ones in the file's order."""
        return sorted((card for _, card in self._kept), key=lambda card: (-card.nudges, card.line))

    @property
    def left_out(self) -> int:
        """The number of conversations that are counted but not shown."""
        return self.totals.conversations - len(self._kept)

    def add_bad(self, line: BadLine) -> None:
        """Add a line that holds no conversation."""
        if len(self.bad) < BAD_LINES_MAX:
            self.bad.append(line)
        else:
            self.bad_beyond += 1

    def add(self, account: GuidedConversation) -> None:
        """Count a conversation, and keep its card if it is among those with the most guidance."""
        calls, nudges = account.tool_calls, account.feedback
        errors = sum(call.failed for call in calls)
        group = outcome_group(account)
        figures = self.groups[group]
        figures.conversations += 1
        figures.calls += len(calls)
        figures.errors += errors
        figures.nudges += len(nudges)
        figures.nudged += bool(nudges)
        for nudge in nudges:
            self.providers.setdefault(nudge.provider_name, Counter())[group] += 1
        for call in calls:
            self._count_call(call)
        line = account.conversation.line
        rank = (len(nudges), errors, -line)
        if len(self._kept) < self.top:
            heapq.heappush(self._kept, (rank, build_card(account)))
        elif self._kept and rank > self._kept[0][0]:
            heapq.heapreplace(self._kept, (rank, build_card(account)))

    def _count_call(self, call: ObservedCall) -> None:
        self.codes[call.code] += 1
        envelope = call.feedback.envelope
        self.suggestions.update(step.kind for step in (envelope.suggestions if envelope else ()))
        if not call.failed:
            return
        key = (call.returned.tool, _IDS.sub("…", call.returned.result[:200]))
        if key not in self.errors:
            if len(self.errors) >= SHAPES_MAX:
                self.errors_beyond += 1
                return
            self.errors[key] = ErrorShape(
                quote_value(call.returned.tool[:200]),
                call.code,
                call.feedback.status_line,
                truncate_middle(display_text(quote_value(call.returned.result)), 200),
            )
        self.errors[key].count += 1


def outcome_group(account: GuidedConversation) -> Group:
    """Return the group of a conversation: solved, not solved, or unknown if its transcript has no reward."""
    solved = account.conversation.solved
    return "unknown" if solved is None else "solved" if solved else "not solved"


def build_card(account: GuidedConversation) -> ConversationCard:
    """Build the card of a conversation, redacted and with all texts truncated, since a report is passed on."""
    talk = account.conversation
    calls, nudges = account.tool_calls, account.feedback
    return ConversationCard(
        line=talk.line,
        label=_shown_label(talk.label),
        reward=talk.reward,
        group=outcome_group(account),
        calls=len(calls),
        errors=sum(call.failed for call in calls),
        nudges=len(nudges),
        first_nudge=nudges[0].call_index if nudges else None,
        lines=tuple(_report_lines(account.items[:ENTRIES_MAX])),
        left_out=max(0, len(account.items) - ENTRIES_MAX),
    )


def _shown_label(label: str) -> str:
    """Return a conversation's label, quoted if it looks like ours; a `?` in it may replace a hidden character."""
    forms = (label.replace("?", put) for put in ("?", "", " "))
    return f"{QUOTE}{label}" if any(map(resembles_ours, forms)) else label


def _report_lines(entries: Iterable[TranscriptText | ObservedCall]) -> Iterator[ReportLine]:
    for entry in entries:
        if isinstance(entry, TranscriptText):
            said = truncate_middle(display_text(quote_forged_lines(entry.text)), TEXT_MAX)
            yield ReportLine("user" if entry.speaker == "user" else "agent", entry.position, said)
            continue
        yield ReportLine(
            "call",
            entry.position,
            truncate_middle(entry.feedback.to_observation(), TEXT_MAX),
            index=entry.index,
            tool=quote_value(entry.returned.tool[:200]),
            arguments=truncate_middle(normalized_arguments(entry), ARGUMENTS_MAX),
            code=entry.code,
            status=entry.feedback.status,
            headline=entry.feedback.status_line,
            steps=tuple(truncate_middle(step, 400) for step in entry.feedback.suggestions),
            nudges=tuple(
                ReportedFeedback(
                    each.provider_name,
                    each.severity,
                    truncate_middle(each.summary, 400),
                    truncate_middle(each.render(), TEXT_MAX),
                )
                for each in entry.provider_feedback
            ),
        )


def normalized_arguments(call: ObservedCall) -> str:
    """Return the arguments as JSON in the form in which calls are compared, redacted."""
    return normalized_arguments_json(redact_value(call.returned.params)).decode("utf-8", "replace")


_MAX_IN_MEMORY_BYTES: Final = 16 << 20  # a copy of a longer pipe goes to a temporary file


def analyze_file(
    file: BinaryIO,
    *,
    source: str = "-",
    top: int = TOP,
    analyzer: GuidanceAnalyzer | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> AnalysisDigest:
    """Work out the guidance for all conversations of `file`; call `progress` with the number of lines done.

    Raises:
        TellbackError: a provider failed.
    """
    analyzer = analyzer or GuidanceAnalyzer()
    digest = AnalysisDigest(source, top)
    with rereadable(file) as again:
        toolbox = collect_tools(again)
        digest.tools = toolbox.names
        again.seek(0)
        for done, item in enumerate(read_transcripts(again), start=1):
            if isinstance(item, BadLine):
                digest.add_bad(item)
            else:
                digest.add(analyzer.analyze(item, toolbox.tools_for(item)))
            progress(done)
    return digest


def collect_tools(file: BinaryIO) -> TranscriptTools:
    """Collect the tools that exist according to a file's conversations."""
    toolbox = TranscriptTools()
    for item in read_transcripts(file):
        if not isinstance(item, BadLine):
            toolbox.add_conversation(item)
    return toolbox


@contextmanager
def rereadable(file: BinaryIO) -> Generator[BinaryIO, None, None]:
    """Yield the file if it is seekable, otherwise a copy that can be read from its beginning again."""
    if file.seekable():
        yield file
        return
    with tempfile.SpooledTemporaryFile(_MAX_IN_MEMORY_BYTES) as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        yield cast("BinaryIO", copy)  # in all but its declared type
