"""Which tools the agents of a file had: those that its conversations declare, else those that answered in any of them.

A name that only ever met "no such tool" is none, so that nothing proposes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.gathering import evidence_of
from tellback.guidance.observations.tools import NAME_MAX, tools_of
from tellback.replay.transcript import Conversation, ToolReturned

NAMES_MAX: Final = 512  # tools of one domain
DOMAINS_MAX: Final = 64


class Toolbox:
    """The tools of each domain, gathered from all conversations before the first is looked at."""

    def __init__(self) -> None:
        """Know none."""
        self._names: dict[str, dict[str, None]] = {}

    def note(self, conversation: Conversation) -> None:
        """Take the tools that a conversation shows to exist."""
        if conversation.domain not in self._names and len(self._names) >= DOMAINS_MAX:
            return
        names = self._names.setdefault(conversation.domain, {})
        for step in conversation.steps:
            if isinstance(step, ToolReturned) and step.tool not in names and len(names) < NAMES_MAX and _exists(step):
                names[step.tool] = None

    def of(self, conversation: Conversation) -> Sequence[str | dict[str, Any]]:
        """The tools that this conversation's agent had: its own declarations, else all names of its domain."""
        if conversation.tools:
            declared = tools_of(conversation.tools)
            return [*conversation.tools, *(name for name in _used(conversation) if name not in declared)]
        return sorted(self._names.get(conversation.domain) or _used(conversation))

    @property
    def names(self) -> list[str]:
        """All names."""
        return sorted({name for names in self._names.values() for name in names})


def _used(conversation: Conversation) -> dict[str, None]:
    return {step.tool: None for step in conversation.steps if isinstance(step, ToolReturned) and _exists(step)}


def _exists(step: ToolReturned) -> bool:
    """Whether it has a name that a host could declare, and its result does not say that there is no such tool."""
    if not step.tool.strip() or len(step.tool) > NAME_MAX:
        return False
    return classify(evidence_of(step.tool, step.params, step.result, None), {}).code != "unknown_tool"
