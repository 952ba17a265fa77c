"""The history of a run, added up: what each life's operations must have caused, and what they may have caused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.history import ENDED, HistoryLine

COUNTED: Final = frozenset({"publish", "append", "hook"})
"""Operations whose effects are counted by life."""


@dataclass
class Life:
    """The events that one life published in one loop: `certain` of them are applied, and never more than `possible`."""

    certain: int = 0
    possible: int = 0
    accepted: int = 0
    """Calls that returned, durable or not."""
    by_evaluation: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """Operations of each evaluation, first the certain ones, then the possible."""
    numbers: list[int] = field(default_factory=list[int])
    """The operations that were not refused, in order."""
    doubtful: int = 0
    """Operations of those that reported no outcome."""
    ended: bool = False
    open_ops: int = 0
    """Operations without an outcome; only the last one may be."""
    pending: list[int] = field(default_factory=list[int])


@dataclass
class Submission:
    """A command as its host saw it."""

    label: str
    session: str
    on_lost: str
    code: int
    command_id: str = ""
    certain: bool = False
    cancelled: bool = False


@dataclass
class TurnStory:
    """A turn as its host and the transports saw it."""

    opened: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each ending with its result, "unknown" or "refused"."""
    sent: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Kind, key and settlement of each time that a transport had a delivery of it."""


@dataclass
class Story:
    """The history of all lives of a run."""

    lives: dict[tuple[str, str], Life] = field(default_factory=dict[tuple[str, str], Life])
    """Each life, by loop and name."""
    submissions: dict[str, Submission] = field(default_factory=dict[str, Submission])
    turns: dict[str, TurnStory] = field(default_factory=dict[str, TurnStory])
    taken: Counter[int] = field(default_factory=Counter[int])
    """Feedback that hosts were given, by evaluation."""
    operations: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """By loop: how many were invoked, returned, refused and unknown."""
    crashes: list[str] = field(default_factory=list[str])
    _labels: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    _turns: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])

    def life(self, loop: str, who: str) -> Life:
        """Return a life, which may begin with this."""
        return self.lives.setdefault((loop, who), Life())


def add_up(lines: Iterable[HistoryLine]) -> Story:
    """Return the story of these lines, of which those of one process and loop are in order."""
    story = Story()
    for line in lines:
        if line.op == "crashed":
            story.crashes.append(f"{line.who} {line.loop}: {line.detail.get('error')}")
        elif line.op == ENDED:
            story.life(line.loop, line.who).ended = True
        elif line.op == "flush":
            if line.phase == "returned":
                _flushed(story, line)
        else:
            _operation(story, line)
    for counts in story.operations.values():
        counts["unknown"] = counts["invoked"] - counts["returned"] - counts["refused"]
    return story


def _operation(story: Story, line: HistoryLine) -> None:
    counts = story.operations.setdefault(line.loop, Counter())
    if line.phase != "unknown":
        counts[line.phase] += 1
    if line.op in COUNTED:
        _published(story, line)
    elif line.loop == "commands":
        _command(story, line)
    elif line.loop == "turns":
        _turn(story, line)
    elif line.op == "deliver":
        _delivery(story, line)
    elif line.op == "feedback" and line.phase == "returned":
        story.taken[line.detail["evaluation"]] += line.detail["taken"]


def _published(story: Story, line: HistoryLine) -> None:
    life = story.life(line.loop, line.who)
    evaluation = line.detail.get("evaluation")
    if line.phase == "invoked":
        life.open_ops += 1
        life.possible += 1
        life.doubtful += 1
        life.numbers.append(line.n)
        if evaluation is not None:
            life.by_evaluation["possible", evaluation] += 1
            life.pending.append(evaluation)
        return
    life.open_ops -= 1
    if line.phase == "refused":
        life.possible -= 1
        life.doubtful -= 1
        life.numbers.pop()
        if life.pending:
            life.by_evaluation["possible", life.pending.pop()] -= 1
    elif line.phase == "returned":
        life.accepted += 1
        life.doubtful -= 1
        if line.op != "publish":  # it says itself that its event is durable
            life.certain += 1
            life.by_evaluation.update(("certain", number) for number in life.pending)
            life.pending.clear()
    elif life.pending:  # unknown
        life.pending.pop()


def _flushed(story: Story, line: HistoryLine) -> None:
    life = story.life(line.loop, line.who)
    life.certain = life.accepted
    life.by_evaluation.update(("certain", number) for number in life.pending)
    life.pending.clear()
    submitted = story.submissions.get(story._labels.get((line.who, line.n), ""))
    if line.loop == "commands" and submitted is not None and submitted.command_id:
        submitted.certain = True


def _command(story: Story, line: HistoryLine) -> None:
    if line.op == "submit" and line.phase == "invoked":
        given = Submission(**line.detail)
        story.submissions[given.label] = given
        story._labels[line.who, line.n] = given.label
        return
    submitted = story.submissions[story._labels[line.who, line.n]]
    if line.op == "cancel":
        submitted.cancelled = True
    elif line.phase == "returned":
        submitted.command_id = line.detail["command_id"]
    else:
        del story.submissions[submitted.label]


def _delivery(story: Story, line: HistoryLine) -> None:
    """Note a delivery when its transport has it: one that dies before it has settled may have sent it."""
    turn = story.turns.setdefault(line.detail["turn"], TurnStory())
    sent = (line.detail["kind"], line.detail["key"], str(line.detail.get("settled", "unknown")))
    if line.phase == "invoked":
        turn.sent.append((*sent[:2], "unknown"))
    else:
        turn.sent[turn.sent.index((*sent[:2], "unknown"))] = sent


def _turn(story: Story, line: HistoryLine) -> None:
    if line.op == "open" and line.phase == "invoked":
        story._turns[line.who, line.n] = line.detail["turn"]
    turn = story.turns.setdefault(story._turns[line.who, line.n], TurnStory())
    if line.op == "open":
        turn.opened = turn.opened or line.phase == "returned"
    elif line.phase == "invoked":
        turn.asked.append((line.op, "unknown"))
    elif line.phase != "unknown":
        turn.asked[-1] = (line.op, line.detail.get("result", "refused"))
