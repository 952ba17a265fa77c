"""The observer of an evaluation, which turns each tool call into the text that the agent should read.

It classifies the call, updates its memory, chooses next steps and renders the feedback. The memory is its only state.
Requirements G-51, G-58 and G-60.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Unpack

from tellback.contracts.guidance import OutcomeCode
from tellback.forks import HasLock
from tellback.guidance.observations import completion
from tellback.guidance.observations.catalog import Catalog, catalog_for
from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.completion import AnswerCheck
from tellback.guidance.observations.emptiness import (
    is_lookup_tool,
    missing_words,
    query_argument_of,
    results_in,
    running_text,
)
from tellback.guidance.observations.evidence import Classifier, Evidence, Finding, Suggestion, ToolEnvelope
from tellback.guidance.observations.evidence_builder import HostReport, build_evidence
from tellback.guidance.observations.feedback import ToolFeedback, first_title, format_body
from tellback.guidance.observations.memory import HeldResult, NoToolHealth, ObservationMemory, ToolHealthSource
from tellback.guidance.observations.situation import SHOWN_QUERY, CallSituation, works_on_files
from tellback.guidance.observations.suggesters import DEFAULT_TIMEOUT, AnySuggester, PromptSuggesters
from tellback.guidance.observations.suggesting import is_encyclopedia, next_steps, select_steps
from tellback.guidance.observations.tools import Tool, ToolDeclaration, parse_tools
from tellback.guidance.observations.values import as_list, display_text, redacted_ends, trim_and_redact, value_text
from tellback.guidance.observations.words import ContentWord, content_words, mentioned_stems
from tellback.log import get_logger
from tellback.truncation import single_line

# Calls for which a tool is no alternative after a rate limit or outage that named no time to wait.
COOLING_CALLS: Final = 3
_MISSING_MAX: Final = 8
_QUESTION_MAX: Final = 8_000
# Outcomes for which a tool's own suggester is called: the call went through.
_SUGGESTED: Final = frozenset({"ok", "partial", "no_results"})
# Outcomes whose steps name other tools; for the rest, the look-up of cool-downs is saved.
_HELPFUL_CODES: Final = frozenset({"rate_limited", "unavailable", "no_results", "unknown_tool", "partial", "denied"})
_ALTERNATIVES: Final = frozenset({"rate_limited", "unavailable", "unknown_tool"})
# The body of such a call, often an HTML page, says no more than the status line.
_HEADLINE_ONLY: Final = frozenset({"rate_limited", "unavailable", "no_results"})

_logger = get_logger("tellback.guidance")


class ToolObserver(HasLock):
    """Classifies the tool calls of one evaluation and suggests next steps. Thread-safe.

    The same calls in the same order give the same bytes. `seed`, the evaluation's name, is part of the input, so the
    agents of a fleet choose different alternatives.
    """

    def __init__(
        self,
        *,
        tools: Iterable[ToolDeclaration] = (),
        question: str | None = None,
        classifiers: Sequence[Classifier] = (),
        suggesters: Mapping[str, AnySuggester] | None = None,
        catalog: Catalog | None = None,
        health: ToolHealthSource | None = None,
        memory: ObservationMemory | None = None,
        required_tools: Iterable[str] = (),
        seed: str = "",
        suggester_timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Parse the tools and check the suggesters.

        Raises:
            InvalidInput: A tool or a suggester is invalid.
        """
        super().__init__()
        self.tools = parse_tools(tools)
        self.question = redacted_ends(value_text(question), _QUESTION_MAX, 0)[0]
        self.catalog = catalog or catalog_for("en")
        self.memory = ObservationMemory() if memory is None else memory
        self.required_tools = tuple(required_tools)
        self._classifiers = tuple(classifiers)
        self._suggesters = PromptSuggesters(suggesters, suggester_timeout)
        self._health = health or NoToolHealth()
        self._seed = seed

    def observe(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        result: object = None,
        error: object = None,
        **report: Unpack[HostReport],
    ) -> ToolFeedback:
        """Return the observation of a call; never raises, whatever is passed."""
        return self.observe_evidence(build_evidence(tool, params, result, error, **report))

    def observe_evidence(self, evidence: Evidence) -> ToolFeedback:
        """Return the observation of a call from evidence that was built before."""
        with self._lock:
            try:
                return self._observe(evidence)
            except Exception:  # an agent must not fail over it
                _logger.exception("observation.failed", tool=evidence.tool)
                return self._unclassified(evidence)

    def check_answer(self, answer: object, *, todo: Iterable[str] = (), max_refusals: int = 2) -> AnswerCheck:
        """Check what is missing before `answer` may end the task; refuse at most `max_refusals` times in a row."""
        with self._lock:
            return completion.check_completion(
                display_text(trim_and_redact(answer)),
                question=self.question,
                memory=self.memory,
                catalog=self.catalog,
                required_tools=self.required_tools,
                todo=tuple(todo),
                max_refusals=max_refusals,
            )

    def verification_text(self, *, todo: Iterable[str] = ()) -> str:
        """Return the questions for the agent before it answers."""
        with self._lock:
            return completion.verification_text(
                question=self.question, memory=self.memory, catalog=self.catalog, todo=tuple(todo)
            )

    def memory_snapshot(self) -> bytes:
        """Return the memory as JSON, for a process that continues with it."""
        with self._lock:
            return self.memory.to_bytes()

    def _observe(self, evidence: Evidence) -> ToolFeedback:
        finding = classify(evidence, self.tools, self._classifiers)
        query = query_argument_of(evidence.params)
        prose = running_text(evidence.text, evidence.data) if finding.code in ("ok", "partial") else ""
        lacking = self._missing_words(evidence, finding, query, prose)
        code: OutcomeCode = "partial" if lacking else finding.code  # a result that misses the question is no success
        situation = self._build_situation(evidence, finding, code, query, lacking)
        self.memory.note_call(evidence.tool, situation.fingerprint)
        self._update_memory(situation, prose, evidence)
        steps = self._next_steps(situation, evidence)
        return self._build_feedback(situation, finding, evidence, steps)

    def _missing_words(
        self, evidence: Evidence, finding: Finding, query: tuple[str, str] | None, prose: str
    ) -> list[ContentWord]:
        if finding.code not in ("ok", "partial") or works_on_files(evidence.tool, evidence.params):
            return []
        asked = query[1] if query else " ".join(str(value) for value in evidence.params.values())[:2_000]
        return missing_words(
            self.question, prose, asked=asked, known=self.memory.carried, tool=evidence.tool, params=evidence.params
        )

    def _build_situation(
        self,
        evidence: Evidence,
        finding: Finding,
        code: OutcomeCode,
        query: tuple[str, str] | None,
        lacking: list[ContentWord],
    ) -> CallSituation:
        outcome = finding.outcome()
        tools = self._existing_tools(evidence.tool, code)
        return CallSituation(
            tool=evidence.tool,
            params=evidence.params,
            code=code,
            query=query if is_lookup_tool(evidence.tool, evidence.params) else None,
            catalog=self.catalog,
            memory=self.memory,
            tools=tools,
            message=finding.message or evidence.message,
            retryable=outcome.retryable,
            retry_after=outcome.retry_after,
            question=self.question,
            title=first_title(evidence.text, evidence.data) if code == "ok" else "",
            missing=tuple(lacking[:_MISSING_MAX]),
            cooling=self._cooldowns(list(tools), evidence.now) if code in _HELPFUL_CODES else {},
            seed=self._seed,
        )

    def _existing_tools(self, tool: str, code: OutcomeCode) -> dict[str, Tool]:
        """Return the declared tools, or without any the tools that have worked or answered in this evaluation."""
        if self.tools:
            return self.tools
        names = list(self.memory.worked)
        if code not in ("unknown_tool", "denied") and tool not in names:
            names.append(tool)
        return {name: Tool(name) for name in names}

    def _cooldowns(self, tools: list[str], now: datetime) -> dict[str, float]:
        """Return the seconds left of tools that cool down, here or in the fleet; 0 if they named no time."""
        at = now.timestamp()
        found: dict[str, float] = {}
        for name, cooling in self.memory.cooling.items():
            if cooling.until is not None and cooling.until > at:
                found[name] = cooling.until - at
            # Calls stand in for time, because the same input must give the same bytes.
            elif cooling.until is None and self.memory.calls - cooling.call < COOLING_CALLS:
                found[name] = 0.0
        try:
            fleet = self._health.cooling(tools)
            return found | {name: max(left, found.get(name, 0.0)) for name, left in fleet.items()}
        except Exception as error:  # noqa: BLE001 - health is advice, and may be another's code
            _logger.warning("health.failed", reason=type(error).__name__)
            return found

    def _update_memory(self, s: CallSituation, prose: str, evidence: Evidence) -> None:
        gained = s.code in ("ok", "partial") and bool(evidence.text.strip()) and is_lookup_tool(s.tool, s.params)
        held = HeldResult(single_line(s.tool, 100), single_line(s.query[1], 100) if s.query else "") if gained else None
        self.memory.note_outcome(s.tool, s.fingerprint, s.code, list(s.params), held)
        if s.code in ("rate_limited", "unavailable"):
            until = None if s.retry_after is None else evidence.now.timestamp() + s.retry_after
            self.memory.note_cooldown(s.tool, until)
        words = content_words(self.question) if self.question and (prose or gained) else ()
        if words:
            self.memory.note_mentions(mentioned_stems(words, prose or evidence.text[:_QUESTION_MAX]))

    def _next_steps(self, s: CallSituation, evidence: Evidence) -> list[Suggestion]:
        if s.code in _SUGGESTED and not evidence.failed:
            results = results_in(evidence.data if isinstance(evidence.result, str) else evidence.result)
            if results is None:
                results = [evidence.text] if evidence.text.strip() and s.code != "no_results" else []
            own = self._suggesters.suggestions_for(s, as_list(results))
            steps = None if own is None else select_steps(s, own)
            if steps:
                return steps
        return next_steps(s)

    def _build_feedback(
        self, s: CallSituation, finding: Finding, evidence: Evidence, steps: list[Suggestion]
    ) -> ToolFeedback:
        outcome = Finding(s.code, s.message, s.retry_after, s.retryable).outcome()
        whole = evidence.data if isinstance(evidence.result, str) else evidence.result
        results = results_in(whole) if s.code in ("ok", "partial") else None
        count = None if results is None else len(results)
        count = count_headings(evidence) if count is None and s.code == "ok" else count
        envelope = ToolEnvelope(
            tool=s.tool,
            status=outcome.status,
            code=s.code,
            retryable=outcome.retryable,
            retry_after=outcome.retry_after,
            message=single_line(display_text(s.message, 4_000), 400) if outcome.status == "error" else "",
            query=s.query_text or None,
            count=count,
            missing=tuple(single_line(word.text, 60) for word in s.missing),
            suggestions=tuple(steps),
            doubtful=finding.doubtful,
        )
        # Only what is shown: the next call decides which of these lines were ignored.
        self.memory.offered = {step.key: step.offer for step in steps}
        return ToolFeedback(
            tool_name=s.tool,
            status=outcome.status,
            result=self._body_text(s, finding, evidence),
            suggestions=tuple(step.text for step in steps),
            headline=self._headline_text(s, count),
            heading=self.catalog.text("section", "alternatives" if s.code in _ALTERNATIVES else "next"),
            note=self._note_text(s),
            envelope=envelope,
            catalog=self.catalog,
        )

    def _headline_text(self, s: CallSituation, count: int | None) -> str:
        tool = single_line(s.tool, 100)
        key: str = s.code
        if s.query is not None and s.code == "ok":
            key = "found_some" if count is None else ("found_one" if count == 1 else "found")
        elif s.code == "partial" and s.missing:
            key = "indirect"
        elif s.code == "no_results" and s.query is None:
            key = "nothing"
        return self.catalog.text("headline", key, tool=tool, count=count, query=s.query_text[:SHOWN_QUERY])

    def _body_text(self, s: CallSituation, finding: Finding, evidence: Evidence) -> str | None:
        if s.code == "no_results":
            key = "no_results_encyclopedia" if is_encyclopedia(s.tool) else "no_results"
            key = "nothing" if s.query is None else key
            return self.catalog.text("note", key)
        if s.code in _HEADLINE_ONLY:
            return None
        if s.code in ("ok", "partial"):
            return format_body(evidence.text, evidence.data) or None
        return display_text(evidence.message or finding.message) or None

    def _note_text(self, s: CallSituation) -> str:
        if not s.missing:
            return ""
        return self.catalog.text("note", "missing", words=", ".join(single_line(word.text, 60) for word in s.missing))

    def _unclassified(self, evidence: Evidence) -> ToolFeedback:
        code: OutcomeCode = "error" if evidence.failed else "ok"
        envelope = ToolEnvelope(evidence.tool, "error" if evidence.failed else "success", code)
        return ToolFeedback(
            tool_name=evidence.tool,
            status=envelope.status,
            result=evidence.message,
            envelope=envelope,
            catalog=self.catalog,
        )


def count_headings(evidence: Evidence) -> int | None:
    """Count the results in a text by its Markdown headings, or return None without any."""
    return sum(line.startswith("## ") for line in evidence.text[:200_000].splitlines()) or None
