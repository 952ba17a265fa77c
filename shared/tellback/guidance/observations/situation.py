"""The situation of a classified call: everything that a suggestion may depend on, and the steps that it can make."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.calls import broader_queries, call_text, fitting_arguments
from tellback.guidance.observations.catalog import Catalog
from tellback.guidance.observations.emptiness import is_action_tool, is_lookup_tool, name_words
from tellback.guidance.observations.evidence import Suggestion
from tellback.guidance.observations.files import file_tool_kind
from tellback.guidance.observations.memory import ObservationMemory
from tellback.guidance.observations.programs import command_of
from tellback.guidance.observations.tools import Tool, answer_argument, final_tool, is_final_tool_name
from tellback.guidance.observations.words import ContentWord, content_words, load_lexicon
from tellback.guidance.progress.effects import only_organizes, works_on_code
from tellback.guidance.repeats import attempt_fingerprint
from tellback.truncation import single_line

# Two of at most four lines: room must remain for using results and for a retry.
ALTERNATIVES_MAX: Final = 2
SHOWN_QUERY: Final = 120
# As in `emptiness`: a longer question is a briefing, of which no answer mentions every word.
QUESTION_WORDS: Final = 24


# Of tools that take other arguments than a path, such as GitHub's `get_file_contents` and Gemini CLI's
# `read_many_files`. `file_search` finds passages that answer a question, and `zip_code` is no code.
_OF_FILES: Final = frozenset(["codebase", "files", "symbol", "symbols", "directory", "lsp", "diagnostics"])
_OF_FILES_BESIDE: Final = {
    "file": frozenset(["read", "get", "view", "open", "contents", "content", "write", "delete", "move"]),
    "code": frozenset(["search", "find", "grep", "read"]),
    "repo": frozenset(["search", "map", "read", "browse", "list"]),
}


def works_on_files(tool: str, params: Mapping[str, Any]) -> bool:
    """Check for a call that runs a command, or reads, searches or changes files."""
    if command_of(tool, params) is not None or file_tool_kind(tool, params) is not None:
        return True
    words = set(name_words(tool))
    return bool(words & _OF_FILES) or any(name in words and words & beside for name, beside in _OF_FILES_BESIDE.items())


def unresolved_tools(memory: ObservationMemory, required: Collection[str] = ()) -> list[str]:
    """Return the tools whose last call failed and was not made up for.

    Any later result makes up for a failed search; only its own success makes up for a failed action.
    """
    return [
        tool
        for tool, code in memory.last.items()
        if code not in ("ok", "partial", "no_results", "unknown_tool", "cancelled")
        and tool not in required
        and (is_action_tool(tool) or memory.failed_at.get(tool, 0) > memory.succeeded_at)
    ]


@dataclass(frozen=True, kw_only=True)
class CallSituation:
    """A classified call and what the evaluation knows; `cooling` has the seconds left for each tool that cools down."""

    tool: str
    params: Mapping[str, Any]
    code: OutcomeCode
    query: tuple[str, str] | None
    catalog: Catalog
    memory: ObservationMemory
    tools: Mapping[str, Tool]
    message: str = ""
    retryable: bool = False
    retry_after: float | None = None
    question: str = ""
    title: str = ""
    missing: tuple[ContentWord, ...] = ()
    cooling: Mapping[str, float] = field(default_factory=dict[str, float])
    seed: str = ""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of this call, by which attempts are compared."""
        return attempt_fingerprint(self.tool, self.params)

    @property
    def query_text(self) -> str:
        """The search, for use within quotes in a line."""
        return single_line(self.query[1] if self.query else "", SHOWN_QUERY).replace('"', "'")

    def plain_step(self, key: str, kind: str, **values: object) -> Suggestion:
        """Make a step without a call."""
        text = self.catalog.text("step", key, **values)
        return Suggestion(kind, text, reason=text.partition(" → ")[0])

    def call_step(self, key: str, kind: str, tool: str, args: Mapping[str, Any], **values: object) -> Suggestion | None:
        """Make a step that is a call, or None if the call is too long to read."""
        text = call_text(tool, args)
        if text is None or "[redacted: " in text:  # the agent would pass the marker on
            return None
        line = self.catalog.text("step", key, call=text, tool=single_line(tool, 100), **values)
        return Suggestion(kind, line, tool, dict(args), line.partition(" → ")[0])

    @property
    def may_be_done(self) -> bool:
        """False where the task cannot be over: during work on files or with commands, or with an open failure.

        Coding agents read "answer the user" after 2,090 of 9,869 calls, the first one included. A long question is a
        briefing, and no single result tells that it is answered.
        """
        if works_on_files(self.tool, self.params) or only_organizes(self.tool):  # a plan ends no task
            return False
        return len(content_words(self.question)) <= QUESTION_WORDS and not unresolved_tools(self.memory)

    @property
    def may_have_answer(self) -> bool:
        """Return False during work on files or with commands, whose results answer no question by themselves."""
        if works_on_files(self.tool, self.params):
            return False
        return not self.memory.held or not all(works_on_code(each.tool) for each in self.memory.held)

    @property
    def untried_tools(self) -> list[str]:
        """Declared tools that were not called in this evaluation, and that only look things up."""
        return [
            name
            for name in self.tools
            if name not in self.memory.last
            and name not in self.cooling
            and not is_final_tool_name(name)
            and not is_action_tool(name)
        ]

    def answer_step(self, key: str, kind: str, said: str = "extracted", **values: object) -> Suggestion:
        """Make a step that ends the task: a call of the final tool, or words if the host has none (G-70)."""
        final = final_tool(self.tools)
        if final is None:
            name = f"user_{said}" if self.catalog.has("answer", f"user_{said}") else "user"
            return self.plain_step(key, kind, answer=self.catalog.text("answer", name, query=self.query_text), **values)
        argument = answer_argument(final)
        text = final.name
        if argument is not None and said:
            text = call_text(text, {argument: self.catalog.text("answer", said, query=self.query_text)}) or text
        line = self.catalog.text("step", key, answer=text, **values)
        return Suggestion(kind, line, final.name, None, line.partition(" → ")[0])

    def tool_exists(self, tool: str) -> bool:
        """Check whether a suggestion may name this tool."""
        return tool in self.tools

    def was_tried(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Check whether this exact call was made before, with or without success."""
        attempt = attempt_fingerprint(tool, args)
        return attempt == self.fingerprint or attempt in self.memory.failed or attempt in self.memory.succeeded

    def untried_arguments(self, tool: Tool, queries: list[str]) -> dict[str, Any] | None:
        """Return untried arguments for a tool, for the first of `queries` that fits; without queries, this call's."""
        wanted: list[str | None] = [*queries] or [None]
        for query in wanted:
            args = fitting_arguments(tool, self.params, query, self.memory.worked.get(tool.name, ()))
            if args is not None and not self.was_tried(tool.name, args):
                return args
        return None

    def alternative_tools(self, queries: list[str]) -> list[tuple[Tool, dict[str, Any]]]:
        """Return other tools that may serve, with arguments, in an order that differs between agents.

        A fleet that meets the same failure must not rush to one fallback (G-66). The order follows a hash of the
        evaluation and the call instead of chance, because the same input must give the same bytes (G-60).
        """
        found: list[tuple[bool, bytes, Tool, dict[str, Any]]] = []
        # Tools for files take words only from a search of files, and a pattern of names means nothing to another.
        of_files = works_on_files(self.tool, self.params)
        wild = any(isinstance(value, str) and "*" in value for value in self.params.values())
        for tool in self.tools.values():
            if tool.name in (self.tool, *self.cooling) or is_final_tool_name(tool.name) or tool.effect == "writes":
                continue
            args = None if only_organizes(tool.name) else self.untried_arguments(tool, queries)
            if args is not None and (not works_on_code(tool.name) or (of_files and not wild)):
                key = hashlib.blake2b(
                    f"{self.seed}\0{self.fingerprint}\0{tool.name}".encode("utf-8", "replace")
                ).digest()
                # Search tools first, all of them equal: preferring known names sent the fleet to a single one.
                found.append((not _is_search_tool(tool.name, args), key, tool, args))
        found.sort(key=lambda item: item[:2])
        return [(tool, args) for _, _, tool, args in found]

    @property
    def retry_queries(self) -> list[str]:
        """This search, then broader ones for tools with which it was tried already."""
        return [] if self.query is None else [self.query[1], *broader_queries(self.query[1], self.question)]


def _is_search_tool(tool: str, args: Mapping[str, Any]) -> bool:
    """Check whether a tool finds things: by its name, or by a query argument unless its name says otherwise."""
    return is_lookup_tool(tool, {} if load_lexicon().no_search & set(name_words(tool)) else args)
