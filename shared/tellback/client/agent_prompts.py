"""The prompts of a prompt's subagents: each has an evaluation of its own in the same session. Requirement G-76."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from cachetools import FIFOCache

from tellback.forks import HasLock

P = TypeVar("P")  # the client's Prompt, which imports this module

MAX_AGENTS: Final = 256  # subagents whose prompts one prompt keeps; an earlier one joins its evaluation again


class AgentPrompts(HasLock, Generic[P]):
    """The prompts of subagents, begun at the first use of their names."""

    def __init__(self, begin: Callable[[str], P]) -> None:
        super().__init__()
        self._begin = begin
        self._begun: FIFOCache[str, P] = FIFOCache(MAX_AGENTS)

    def named(self, evaluation: str) -> P:
        """Return the prompt of this evaluation.

        Raises:
            SpoolFull: Redis is unavailable and the spool is full.
        """
        with self._lock:  # or two threads would begin one subagent's evaluation
            found = self._begun.get(evaluation)
            if found is None:
                found = self._begun[evaluation] = self._begin(evaluation)
        return found
