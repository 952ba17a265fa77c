"""The providers that every worker knows, beside `StuckFeedback`: deadline, budget, changes, reminders, counts of calls.

Each is a frozen dataclass of plain fields, from which a worker rebuilds it, and a pure function of its context. Those
that speak at levels or thresholds compare the count now with the count at their own last feedback (`context.own`), so
they speak once per level without state of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast, get_args

from tellback.contracts.guidance import ContextChange, Feedback, Observation, Severity
from tellback.errors import InvalidInput
from tellback.guidance.provider import FeedbackContext, NamedByClass, call_failed
from tellback.guidance.repeats import LEVELS, check_levels, level_reached
from tellback.guidance.state import RECENT_CALLS

MINUTE: Final = 60
HOUR: Final = 3_600


def format_duration(seconds: float) -> str:
    """Format a duration for people: `45 seconds`, `1 minute`, `12 minutes`, `1.5 hours`; rounds down."""
    if seconds < MINUTE:
        return _with_unit(str(max(0, int(seconds))), "second")
    if seconds < HOUR:
        return _with_unit(str(int(seconds // MINUTE)), "minute")
    tenths = int(seconds * 10 // HOUR)
    return _with_unit(f"{tenths / 10:.1f}".removesuffix(".0"), "hour")


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


@dataclass(frozen=True)
class DeadlineFeedback(NamedByClass):
    """Reports the time left, as a warning with suggestions from the threshold on and after the deadline.

    It does not run without a deadline. Requirements G-28 and G-29.
    """

    warning_threshold_seconds: float = 120

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if the prompt has a deadline."""
        return context.deadline is not None

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report the time spent and left; the threshold itself already is a warning."""
        assert context.deadline is not None, "should_run"
        elapsed = format_duration(context.elapsed.total_seconds())
        remaining = (context.deadline - context.now).total_seconds()
        if remaining <= 0:
            summary = f"The work took {elapsed}. You have reached the time deadline."
            return Feedback(self.name, summary, suggestions=("Wrap up now.",), severity="warning")
        summary = (
            f"The work so far took {elapsed}. You have {format_duration(remaining)} remaining to complete the task."
        )
        if remaining > self.warning_threshold_seconds:
            return Feedback(self.name, summary)
        steps = ("Prioritize critical remaining work.", "Summarize progress and what remains.")
        return Feedback(self.name, summary, suggestions=steps, severity="warning")


THRESHOLDS: Final = (0.5, 0.8, 0.95, 1.0)
CAUTION_SHARE: Final = Decimal("0.8")


@dataclass(frozen=True)
class BudgetFeedback(NamedByClass):
    """Reports the used share of a budget, from what hosts report with `prompt.spent`; use `every_n_calls=1`.

    The larger share of tokens and cost counts. It speaks once for each threshold, from 0.8 on as a caution, at and
    above the budget as a warning. `max_cost` is in the currency of the reports; `currency` is only displayed.
    """

    max_tokens: int | None = None
    max_cost: Decimal | float | None = None
    thresholds: tuple[float, ...] = THRESHOLDS
    currency: str = ""

    def __post_init__(self) -> None:
        """Refuse a budget without limits, and thresholds that are not positive numbers."""
        limits = [limit for limit in (self.max_tokens, self.max_cost) if limit is not None]
        if not limits or not all(map(_is_positive_amount, limits)):
            raise InvalidInput("max_tokens and max_cost: give one of them or both, as numbers above 0")
        shares: Any = self.thresholds
        if not isinstance(shares, tuple | list) or not shares or not all(map(_is_positive_amount, cast("Any", shares))):
            raise InvalidInput(f"thresholds is {shares!r}; use a tuple of shares of the budget above 0")

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if a threshold was crossed since its last feedback."""
        now = self._thresholds_crossed(self._used_share(context.tokens_spent, context.cost_spent))
        return now > self._thresholds_crossed(self._used_share(context.own.tokens, context.own.cost))

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report the used share, and the amounts of each budget."""
        share = self._used_share(context.tokens_spent, context.cost_spent)
        severity: Severity = "warning" if share >= 1 else "caution" if share >= CAUTION_SHARE else "info"
        suggestions: tuple[str, ...] = ()
        if severity == "caution":
            suggestions = ("Prioritize what is still needed.", "Prefer cheap steps.")
        elif severity == "warning":
            suggestions = ("Wrap up now with what you have.",)
        summary = f"You have used {int(share * 100)}% of the budget."
        return Feedback(self.name, summary, tuple(self._spent_observations(context)), suggestions, severity)

    def _spent_observations(self, context: FeedbackContext) -> list[Observation]:
        seen: list[Observation] = []
        if self.max_tokens is not None:
            seen.append(Observation("tokens", f"{context.tokens_spent:,} of {self.max_tokens:,}"))
        if self.max_cost is not None:
            unit = f" {self.currency}" if self.currency else ""
            limit = _plain_decimal(_exact_decimal(self.max_cost))
            seen.append(Observation("cost", f"{_plain_decimal(context.cost_spent)} of {limit}{unit}"))
        return seen

    def _used_share(self, tokens: int, cost: Decimal) -> Decimal:
        shares = [Decimal(0)]
        if self.max_tokens is not None:
            shares.append(Decimal(tokens) / self.max_tokens)
        if self.max_cost is not None:
            shares.append(cost / _exact_decimal(self.max_cost))
        return max(shares)

    def _thresholds_crossed(self, share: Decimal) -> int:
        return sum(share >= _exact_decimal(threshold) for threshold in self.thresholds)


def _is_positive_amount(value: object) -> bool:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return False
    exact = _exact_decimal(value)
    return exact.is_finite() and exact > 0


def _exact_decimal(number: Decimal | float) -> Decimal:
    """Convert a number through its text: `Decimal(0.1)` is not a tenth, and sums of money must be exact (G-33)."""
    return Decimal(str(number))


def _plain_decimal(amount: Decimal) -> str:
    """Format an amount without an exponent or trailing zeros."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# Half of the items that a feedback may have; earlier changes are counted in one line.
_CHANGES_SHOWN: Final = 10

_CHANGE_ADVICE: Final = {
    "file": "Read the changed files again before you rely on them.",
    "branch": "Check which branch you are on before you go on.",
    "instructions": "Follow the new instructions.",
}


@dataclass(frozen=True)
class ContextChangeFeedback(NamedByClass):
    """Reports changes that a host or another agent published, each once per evaluation; use `every_n_calls=1`.

    `kinds` selects "file", "branch", "instructions" or any other kind that hosts publish; empty means all.
    """

    kinds: tuple[str, ...] = ()

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if there is a change that it has not reported."""
        return bool(self._new_changes(context))

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report the changes, newest last, with advice for each kind."""
        new = self._new_changes(context)
        shown = new[-_CHANGES_SHOWN:]
        # Dropped at the cap, so their kinds are unknown: they can only be counted when all kinds are wanted.
        unseen = 0 if self.kinds else context.changes_total - context.own.changes - len(new)
        earlier = len(new) - len(shown) + unseen
        observations = [Observation(change.kind, _change_text(change)) for change in shown]
        if earlier:
            observations.insert(0, Observation("earlier changes", str(earlier)))
        kinds = dict.fromkeys(change.kind for change in new)
        count = len(new) + unseen
        summary = "Something changed since you last looked." if count == 1 else f"{count} things changed meanwhile."
        steps = tuple(advice for kind, advice in _CHANGE_ADVICE.items() if kind in kinds)
        return Feedback(self.name, summary, tuple(observations), steps, "caution")

    def _new_changes(self, context: FeedbackContext) -> list[ContextChange]:
        return [change for change in context.new_changes() if not self.kinds or change.kind in self.kinds]


def _change_text(change: ContextChange) -> str:
    text = f"{change.name}: {change.detail}" if change.detail else change.name
    return f"{text} (by {change.by})" if change.by else text


@dataclass(frozen=True)
class StaticFeedback:
    """The same reminder each time its trigger fires."""

    summary: str
    suggestions: tuple[str, ...] = ()
    severity: Severity = "info"
    label: str = "StaticFeedback"

    def __post_init__(self) -> None:
        """Refuse a reminder without words and an unknown severity: a worker could give no agent such feedback."""
        words: Any = self.summary
        if not isinstance(words, str) or not words.strip():
            raise InvalidInput(f"StaticFeedback.summary is {words!r}; use a text that is not blank")
        if self.severity not in get_args(Severity):
            raise InvalidInput(
                f"StaticFeedback.severity is {self.severity!r}; use one of {', '.join(get_args(Severity))}"
            )

    @property
    def name(self) -> str:
        """Its label, so you can tell two reminders apart."""
        return self.label

    def should_run(self, *, context: FeedbackContext) -> bool:  # noqa: ARG002 - the protocol's form
        """Return True: the trigger alone decides."""
        return True

    def provide(self, *, context: FeedbackContext) -> Feedback:  # noqa: ARG002 - the protocol's form
        """Return the fixed words."""
        return Feedback(self.name, self.summary, suggestions=self.suggestions, severity=self.severity)


@dataclass(frozen=True)
class ToolUsageMonitor(NamedByClass):
    """Reports the number of tool calls, with suggestions above a threshold.

    Requirement G-30.
    """

    max_calls_without_progress: int = 20

    def should_run(self, *, context: FeedbackContext) -> bool:  # noqa: ARG002 - the protocol's form
        """Return True: the trigger alone decides."""
        return True

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report the count; above the threshold as a caution."""
        count = context.tool_call_count
        if count <= self.max_calls_without_progress:
            return Feedback(self.name, f"Tool calls: {count}")
        summary = f"You have made {count} tool {'call' if count == 1 else 'calls'} without completing."
        steps = ("Review your approach.", "Consider whether you're making progress.")
        return Feedback(self.name, summary, suggestions=steps, severity="caution")


# Characters of the tools, and of the last error: enough for its first line, where the cause usually stands.
_ERROR_SHOWN: Final = 200


@dataclass(frozen=True)
class FailureStreakFeedback(NamedByClass):
    """Reports that the newest tool calls failed in a row; use the trigger `every_n_calls=1`.

    It speaks when a level is reached and is silent between levels. A success ends the streak; a call that a user
    refused, or that was cancelled with another one, is neither success nor failure.
    """

    levels: tuple[int, ...] = LEVELS

    def __post_init__(self) -> None:
        """Refuse levels that no count could reach."""
        check_levels(self.levels, 1)

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if the streak has reached a level that was not reported yet."""
        streak = context.failures_in_a_row()
        # The part of the streak before its own last feedback, which is 0 if a success came between.
        since = context.failing_since or context.tool_call_count - streak + 1
        reported = max(0, context.own.call_index - since + 1)
        # Without a new call the streak cannot have grown.
        return not context.timed and level_reached(streak, self.levels) > level_reached(reported, self.levels)

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report the length of the streak, the tools and the last error; at the last level as a warning."""
        streak = context.failures_in_a_row()
        failed = [call for call in context.recent_tool_calls(streak) if call_failed(call)]
        tools = ", ".join(dict.fromkeys(call.tool for call in failed))
        last = failed[-1] if failed else None
        severity: Severity = "warning" if level_reached(streak, self.levels) == max(self.levels) else "caution"
        calls = "tool call" if streak == 1 else f"{streak} tool calls"
        seen = [Observation("tools", tools[:_ERROR_SHOWN])]
        if last is not None and last.error:
            seen.append(Observation("last error", last.error[:_ERROR_SHOWN]))
        steps = ("Read the last error before the next call.", _AFTER_FAILURES)
        return Feedback(self.name, f"The last {calls} failed.", tuple(seen), steps, severity)


@dataclass(frozen=True)
class RepeatedCallFeedback(NamedByClass):
    """Reports calls that repeat others, more firmly at each level; use the trigger `every_n_calls=1`.

    A call repeats another if nothing happened in between that could change its answer, and its result is the same in
    substance. Case, white space and the order of arguments do not matter; another number does. It speaks when a level
    is reached and is silent between levels.
    """

    levels: tuple[int, ...] = LEVELS

    def __post_init__(self) -> None:
        """Refuse levels that no count could reach."""
        check_levels(self.levels, 2, RECENT_CALLS)

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True if the newest call has reached a level that was not reported yet."""
        if context.timed:  # the newest call was judged when it came
            return False
        similar = context.similar_calls()
        reported = sum(index <= context.own.call_index for index in similar)
        return level_reached(len(similar), self.levels) > level_reached(reported, self.levels)

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Report the tool and the number of calls; at the last level as a warning."""
        similar = context.similar_calls()
        count = len(similar)
        call = context.recent_tool_calls(1)[0]
        step = sorted(self.levels).index(level_reached(count, self.levels))
        severity: Severity = "warning" if step == len(self.levels) - 1 else "caution" if step else "info"
        failed = call_failed(call)
        summary = (
            f"You have called {call.tool} {count} times with the same or nearly the same arguments, "
            f"and each time the {'failure' if failed else 'result'} was the same."
        )
        seen = (Observation("first of them", f"call {similar[0]}"), Observation("last status", call.status))
        return Feedback(self.name, summary, seen, (_AFTER_FAILURE if failed else _AFTER_RESULT,), severity)


_AFTER_FAILURES: Final = "Change the arguments, use another tool, or go on without it."
_AFTER_FAILURE: Final = "Change what makes it fail before you make this call again."
_AFTER_RESULT: Final = "Use this result, or ask something else; nothing that could change it has happened since."
