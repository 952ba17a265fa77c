"""ContextChangeFeedback: what changed while the agent was at work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tellback.contracts.guidance import ContextChange, Feedback, Observation
from tellback.guidance.context import FeedbackContext

_SHOWN: Final = 10
_ADVICE: Final = {
    "file": "Read the changed files again before you rely on them.",
    "branch": "Check which branch you are on before you go on.",
    "instructions": "Follow the new instructions.",
}


@dataclass(frozen=True)
class ContextChangeFeedback:
    """Tells of changes that a host or another agent published, each once in an evaluation; use `every_n_calls=1`.

    `kinds` narrows them: "file", "branch", "instructions", or what else hosts publish; empty: all.
    """

    kinds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return "ContextChangeFeedback"

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Whether there is a change that it has not told of."""
        return bool(self._new(context))

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """The changes, the newest last; what they ask of the agent."""
        new = self._new(context)
        shown = new[-_SHOWN:]
        unseen = 0 if self.kinds else context.changes_total - context.own.changes - len(new)
        earlier = len(new) - len(shown) + unseen
        observations = [Observation(change.kind, _said(change)) for change in shown]
        if earlier:
            observations.insert(0, Observation("earlier changes", str(earlier)))
        kinds = dict.fromkeys(change.kind for change in new)
        count = len(new) + unseen
        return Feedback(
            provider_name=self.name,
            summary="Something changed since you last looked." if count == 1 else f"{count} things changed meanwhile.",
            observations=tuple(observations),
            suggestions=tuple(advice for kind, advice in _ADVICE.items() if kind in kinds),
            severity="caution",
        )

    def _new(self, context: FeedbackContext) -> list[ContextChange]:
        return [change for change in context.new_changes() if not self.kinds or change.kind in self.kinds]


def _said(change: ContextChange) -> str:
    text = f"{change.name}: {change.detail}" if change.detail else change.name
    return f"{text} (by {change.by})" if change.by else text
