"""The signal types: the one declaration from which scores, stored counts, Lua, charts and documentation are made.

Stored counts have no names: they stand in the order of `SIGNAL_TYPES`. Add a type at the end, and remove none. A record
that was stored before has fewer counts, and the missing ones are read as 0.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

SignalType = Literal["used", "ignored", "helpful", "not_helpful"]


class SignalTypeInfo(NamedTuple):
    """One signal type. No field has a default, so that none can be forgotten.

    `weight` x confidence x 0.1 moves a score. `prune` says for which side the type counts when facts to prune are
    listed. `color` is matplotlib's, for charts. `send_when` completes "send it when" in the documentation.
    """

    name: SignalType
    weight: float
    prune: Literal["for", "against", "neither"]
    color: str
    send_when: str


# The weights, the step and the decay are fixed by the requirements, not tuned (docs/decisions/thresholds.md).
NEUTRAL: Final = 0.5
STEP: Final = 0.1
DECAY_PER_WEEK: Final = 0.95
WEEK_MS: Final = 7 * 86_400_000

SIGNAL_TYPES: Final = (
    SignalTypeInfo("used", 1.0, "for", "tab:blue", "the agent's answer used the fact"),
    SignalTypeInfo("ignored", -0.5, "against", "lightgray", "the agent saw the fact and did not use it"),
    SignalTypeInfo("helpful", 1.5, "for", "tab:green", "a user said that it helped"),
    SignalTypeInfo("not_helpful", -1.0, "against", "tab:red", "a user said that it did not help"),
)

KINDS: Final[tuple[SignalType, ...]] = tuple(kind.name for kind in SIGNAL_TYPES)
"""The names, in the order of stored counts."""
