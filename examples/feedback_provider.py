"""A feedback provider of your own, with its unit tests. Copy this file and make it yours.

pytest examples/feedback_provider.py
TELLBACK_PROVIDERS=feedback_provider:SameToolMonitor  # for workers that can import it
"""

from __future__ import annotations

from dataclasses import dataclass

from tellback import Feedback, FeedbackContext
from tellback.testing import Call, context, run


@dataclass(frozen=True)
class SameToolMonitor:
    """Says so when one tool was called many times in a row.

    Its fields travel from the host to the workers: plain values alone. The same context gives the same feedback.
    """

    times: int = 5

    @property
    def name(self) -> str:
        """The name of the provider; `[Feedback - SameToolMonitor]` heads its text."""
        return "SameToolMonitor"

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Filter beyond the trigger; False leaves it due."""
        recent = context.recent_tool_calls(self.times)
        return len(recent) == self.times and len({call.tool for call in recent}) == 1

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """The feedback for this moment."""
        (last,) = context.recent_tool_calls(1)
        return Feedback(
            provider_name=self.name,
            summary=f"The last {self.times} calls all went to {last.tool}.",
            suggestions=("Consider another tool.",),
            severity="caution",
        )


def test_it_speaks_when_one_tool_was_called_three_times_in_a_row() -> None:
    """`run` drives it as a worker would: trigger, cadence, and a rebuilt provider; no Redis, no waiting."""
    fires = run(SameToolMonitor(times=3), ["search", "fetch", "search", "search", "search"], every_n_calls=1)
    assert [fire.call for fire in fires] == [5]
    assert fires[0].feedback.summary == "The last 3 calls all went to search."


def test_its_cadence_is_that_of_the_trigger() -> None:
    """Ten calls of one tool, a minute apart."""
    fires = run(SameToolMonitor(times=3), [Call("search", after=60.0)] * 10, every_n_seconds=240)
    assert [fire.seconds for fire in fires] == [240.0, 480.0]


def test_it_has_nothing_to_say_of_two_calls() -> None:
    """`context` makes what a provider sees, for a direct call."""
    assert not SameToolMonitor(times=3).should_run(context=context(calls=["search", "search"]))
