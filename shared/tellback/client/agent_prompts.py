"""The prompts of a prompt's subagents: each has an evaluation of its own in the same session. Requirement G-76."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from cachetools import FIFOCache

from tellback.forks import run_in_child

P = TypeVar("P")  # the client's Prompt, which imports this module

MAX_AGENTS: Final = 256  # subagents whose prompts one prompt keeps; an earlier one joins its evaluation again


class AgentPrompts(Generic[P]):
    """The prompts of subagents, begun at the first use of their names."""

    def __init__(self, begin: Callable[[str], P]) -> None:
        self._begin = begin
        self._begun: FIFOCache[str, P] = FIFOCache(MAX_AGENTS)
        self._unlock()
        run_in_child(self._unlock)

    def _unlock(self) -> None:
        self._lock = threading.Lock()  # or two threads would begin one subagent's evaluation

    def named(self, evaluation: str) -> P:
        """Return the prompt of this evaluation.

        Raises:
            SpoolFull: Redis is unavailable and the spool is full.
        """
        with self._lock:
            found = self._begun.get(evaluation)
            if found is None:
                found = self._begun[evaluation] = self._begin(evaluation)
        return found
