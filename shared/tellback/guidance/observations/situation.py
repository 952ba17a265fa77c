"""All that a suggestion may depend on, and the pieces from which steps are made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tellback.contracts.guidance import Code
from tellback.guidance.attempts import attempt_of
from tellback.guidance.observations.calls import broader, call_text, fitting
from tellback.guidance.observations.catalog import Catalog
from tellback.guidance.observations.emptiness import looks_up, words_of_name
from tellback.guidance.observations.envelope import Suggestion
from tellback.guidance.observations.lexicon import lexicon
from tellback.guidance.observations.memory import ObservationMemory
from tellback.guidance.observations.tools import Tool, answer_argument, final_tool, is_final
from tellback.guidance.observations.values import one_line
from tellback.guidance.observations.words import Word

ALTERNATIVES_MAX: Final = 2
SHOWN_QUERY: Final = 120


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A call that was classified, and what the evaluation knows; `cooling` has the seconds that tools still have."""

    tool: str
    params: Mapping[str, Any]
    code: Code
    query: tuple[str, str] | None
    catalog: Catalog
    memory: ObservationMemory
    tools: Mapping[str, Tool]
    message: str = ""
    retryable: bool = False
    retry_after: float | None = None
    question: str = ""
    title: str = ""
    missing: tuple[Word, ...] = ()
    cooling: Mapping[str, float] = field(default_factory=dict[str, float])
    seed: str = ""

    @property
    def attempt(self) -> str:
        """The fingerprint of this call."""
        return attempt_of(self.tool, self.params)

    @property
    def subject(self) -> str:
        """What was searched for, for a text."""
        return one_line(self.query[1] if self.query else "", SHOWN_QUERY).replace('"', "'")

    def words(self, key: str, kind: str, **values: object) -> Suggestion:
        """A step without a call."""
        text = self.catalog.text("step", key, **values)
        return Suggestion(kind, text, reason=text.partition(" → ")[0])

    def call(self, key: str, kind: str, tool: str, args: Mapping[str, Any], **values: object) -> Suggestion | None:
        """A step that is a call; None where it would be too long to read."""
        text = call_text(tool, args)
        if text is None or "[redacted: " in text:  # what stands there is not what was passed
            return None
        line = self.catalog.text("step", key, call=text, tool=one_line(tool, 100), **values)
        return Suggestion(kind, line, tool, dict(args), line.partition(" → ")[0])

    def answer(self, key: str, kind: str, said: str = "extracted", **values: object) -> Suggestion:
        """A step that ends the task: the call of the final tool, or words where the host has none."""
        final = final_tool(self.tools)
        if final is None:
            name = f"user_{said}" if self.catalog.has("answer", f"user_{said}") else "user"
            return self.words(key, kind, answer=self.catalog.text("answer", name, query=self.subject), **values)
        argument = answer_argument(final)
        text = final.name
        if argument is not None and said:
            text = call_text(text, {argument: self.catalog.text("answer", said, query=self.subject)}) or text
        line = self.catalog.text("step", key, answer=text, **values)
        return Suggestion(kind, line, final.name, None, line.partition(" → ")[0])

    def exists(self, tool: str) -> bool:
        """Whether a tool of this name may be named."""
        return tool in self.tools

    def tried(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether this very call was made before: it failed, or its result is in hand."""
        attempt = attempt_of(tool, args)
        return attempt == self.attempt or attempt in self.memory.failed or attempt in self.memory.succeeded

    def fresh(self, tool: Tool, queries: list[str]) -> dict[str, Any] | None:
        """Arguments for a tool that were not tried: for the first of `queries` that gives any; without, this call's."""
        wanted: list[str | None] = [*queries] or [None]
        for query in wanted:
            args = fitting(tool, self.params, query, self.memory.worked.get(tool.name, ()))
            if args is not None and not self.tried(tool.name, args):
                return args
        return None

    def others(self, queries: list[str]) -> list[tuple[Tool, dict[str, Any]]]:
        """Other tools that may do it, with the arguments; which come first differs from agent to agent.

        A fleet that met the same failure must not rush to one fallback: the order follows a hash of the evaluation and
        the call, so that the same input gives the same bytes.
        """
        found: list[tuple[bool, bytes, Tool, dict[str, Any]]] = []
        for tool in self.tools.values():
            if tool.name == self.tool or is_final(tool.name) or tool.name in self.cooling:
                continue
            args = self.fresh(tool, queries)
            if args is not None:
                key = hashlib.blake2b(f"{self.seed}\0{self.attempt}\0{tool.name}".encode("utf-8", "replace")).digest()
                found.append((not _searches(tool.name, args), key, tool, args))
        found.sort(key=lambda item: item[:2])
        return [(tool, args) for _, _, tool, args in found]

    @property
    def own_queries(self) -> list[str]:
        """This search, and fewer words of it where it was tried elsewhere."""
        return [] if self.query is None else [self.query[1], *broader(self.query[1], self.question)]


def _searches(tool: str, args: Mapping[str, Any]) -> bool:
    """Whether a tool finds things: by its name, or since it takes a query and no word of its name speaks against it."""
    return looks_up(tool, {} if lexicon().no_search & set(words_of_name(tool)) else args)
