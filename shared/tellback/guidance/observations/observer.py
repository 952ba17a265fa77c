"""The observer of an evaluation: a tool call goes in, what the agent should read comes out. Pure but for its memory.

Source: actionable-feedback.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tellback.contracts.guidance import Code
from tellback.guidance.observations import completion
from tellback.guidance.observations.catalog import Catalog, catalog_of
from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.completion import AnswerCheck
from tellback.guidance.observations.emptiness import count_of, looks_up, query_of, results_of
from tellback.guidance.observations.envelope import Suggestion, ToolEnvelope
from tellback.guidance.observations.evidence import Classifier, Evidence, Finding
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.gathering import evidence_of
from tellback.guidance.observations.health import Health, NoHealth
from tellback.guidance.observations.layout import body_text, title_of
from tellback.guidance.observations.memory import Held, ObservationMemory
from tellback.guidance.observations.missing import missing_words, prose_of
from tellback.guidance.observations.situation import SHOWN_QUERY, Situation
from tellback.guidance.observations.suggesters import DEFAULT_PATIENCE, Suggesters, Suggesting
from tellback.guidance.observations.suggesting import bounded, is_encyclopedia, next_steps
from tellback.guidance.observations.tools import Tool, ToolDeclaration, tools_of
from tellback.guidance.observations.trimming import readable
from tellback.guidance.observations.values import ends_of, one_line, shown, text_of
from tellback.guidance.observations.words import Word, carried, content_words
from tellback.log import get_logger

COOLING_CALLS: Final = 3  # calls for which a tool is left alone that did not say for how long
_MISSING_MAX: Final = 8
_QUESTION_MAX: Final = 8_000
_SUGGESTED: Final = frozenset({"ok", "partial", "no_results"})
_HELPED: Final = frozenset({"rate_limited", "unavailable", "no_results", "unknown_tool", "partial", "denied"})
_ALTERNATIVES: Final = frozenset({"rate_limited", "unavailable", "unknown_tool"})
_BARE: Final = frozenset({"rate_limited", "unavailable", "no_results"})  # a status line says it all

_log = get_logger("tellback.guidance")


class Observer:
    """Classifies the tool calls of one evaluation and says what to do next. Safe across threads.

    The same calls in the same order give the same bytes; `seed`, the evaluation's name, is part of the input, so that
    agents of a fleet choose between alternatives differently.
    """

    def __init__(
        self,
        *,
        tools: Iterable[ToolDeclaration] = (),
        question: str | None = None,
        classifiers: Sequence[Classifier] = (),
        suggesters: Mapping[str, Suggesting] | None = None,
        catalog: Catalog | None = None,
        health: Health | None = None,
        memory: ObservationMemory | None = None,
        required_tools: Iterable[str] = (),
        seed: str = "",
        suggester_patience: float = DEFAULT_PATIENCE,
    ) -> None:
        """Take what the host declares.

        Raises:
            InvalidInput: a tool or a suggester is none.
        """
        self.tools = tools_of(tools)
        self.question = ends_of(text_of(question), _QUESTION_MAX, 0)[0]
        self.catalog = catalog or catalog_of("en")
        self.memory = ObservationMemory() if memory is None else memory
        self.required_tools = tuple(required_tools)
        self._classifiers = tuple(classifiers)
        self._suggesters = Suggesters(suggesters, suggester_patience)
        self._health = health or NoHealth()
        self._seed = seed
        self._lock = threading.Lock()

    def observe(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        result: object = None,
        error: object = None,
        status: str | None = None,
        http_status: int | None = None,
        headers: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> ToolFeedback:
        """What the call came to and what to do next; whatever is passed, it does not raise.

        `now` is what an HTTP-date of Retry-After is compared with; this host's clock by default.
        """
        evidence = evidence_of(
            tool,
            params,
            result,
            error,
            status=status,
            http_status=http_status,
            headers=headers,
            metadata=metadata,
            now=now,
        )
        return self.see(evidence)

    def see(self, evidence: Evidence) -> ToolFeedback:
        """As `observe`, of evidence that is gathered already."""
        with self._lock:
            try:
                return self._seen(evidence)
            except Exception:  # noqa: BLE001 - an agent must not fail over it
                _log.exception("observation.failed", tool=evidence.tool)
                return self._plain(evidence)

    def check_answer(self, answer: object, *, todo: Iterable[str] = (), max_refusals: int = 2) -> AnswerCheck:
        """What is missing before `answer` may end the task; refuses at most `max_refusals` times in a row."""
        with self._lock:
            return completion.check(
                shown(readable(answer)),
                question=self.question,
                memory=self.memory,
                catalog=self.catalog,
                required_tools=self.required_tools,
                todo=tuple(todo),
                max_refusals=max_refusals,
            )

    def verification(self, *, todo: Iterable[str] = ()) -> str:
        """What to ask the agent before it answers."""
        with self._lock:
            return completion.verification(
                question=self.question, memory=self.memory, catalog=self.catalog, todo=tuple(todo)
            )

    def snapshot(self) -> bytes:
        """The memory as JSON, for a process that goes on with it."""
        with self._lock:
            return self.memory.to_bytes()

    def _seen(self, evidence: Evidence) -> ToolFeedback:
        finding = classify(evidence, self.tools, self._classifiers)
        query = query_of(evidence.params)
        prose = prose_of(evidence.text, evidence.data) if finding.code in ("ok", "partial") else ""
        lacking = self._lacking(evidence, finding, query, prose)
        code: Code = "partial" if lacking else finding.code
        situation = self._situation(evidence, finding, code, query, lacking)
        self.memory.called(evidence.tool, situation.attempt)
        self._remember(situation, prose, evidence)
        steps = self._steps(situation, evidence)
        return self._feedback(situation, finding, evidence, steps)

    def _lacking(self, evidence: Evidence, finding: Finding, query: tuple[str, str] | None, prose: str) -> list[Word]:
        if finding.code not in ("ok", "partial"):
            return []
        asked = query[1] if query else " ".join(str(value) for value in evidence.params.values())[:2_000]
        return missing_words(
            self.question,
            prose,
            asked=asked,
            known=self.memory.carried,
            tool=evidence.tool,
            params=evidence.params,
        )

    def _situation(
        self, evidence: Evidence, finding: Finding, code: Code, query: tuple[str, str] | None, lacking: list[Word]
    ) -> Situation:
        outcome = finding.outcome()
        tools = self._existing(evidence.tool, code)
        return Situation(
            tool=evidence.tool,
            params=evidence.params,
            code=code,
            query=query if looks_up(evidence.tool, evidence.params) else None,
            catalog=self.catalog,
            memory=self.memory,
            tools=tools,
            message=finding.message or evidence.message,
            retryable=outcome.retryable,
            retry_after=outcome.retry_after,
            question=self.question,
            title=title_of(evidence.text, evidence.data) if code == "ok" else "",
            missing=tuple(lacking[:_MISSING_MAX]),
            cooling=self._cooling(list(tools), evidence.now) if code in _HELPED else {},
            seed=self._seed,
        )

    def _existing(self, tool: str, code: Code) -> dict[str, Tool]:
        """The declared tools; where none were declared, those that have worked or answered here."""
        if self.tools:
            return self.tools
        names = list(self.memory.worked)
        if code not in ("unknown_tool", "denied") and tool not in names:
            names.append(tool)
        return {name: Tool(name) for name in names}

    def _cooling(self, tools: list[str], now: datetime) -> dict[str, float]:
        """Tools that are to be left alone: by this evaluation's own calls, and by those of the fleet."""
        at = now.timestamp()
        found: dict[str, float] = {}
        for name, cooling in self.memory.cooling.items():
            if cooling.until is not None and cooling.until > at:
                found[name] = cooling.until - at
            elif cooling.until is None and self.memory.calls - cooling.call < COOLING_CALLS:
                found[name] = 0.0
        try:
            fleet = self._health.cooling(tools)
            return found | {name: max(left, found.get(name, 0.0)) for name, left in fleet.items()}
        except Exception as error:  # noqa: BLE001 - health is advice, and may be another's code
            _log.warning("health.failed", reason=type(error).__name__)
            return found

    def _remember(self, s: Situation, prose: str, evidence: Evidence) -> None:
        gained = s.code in ("ok", "partial") and bool(evidence.text.strip()) and looks_up(s.tool, s.params)
        held = Held(one_line(s.tool, 100), one_line(s.query[1], 100) if s.query else "") if gained else None
        self.memory.ended(s.tool, s.attempt, s.code, list(s.params), held)
        if s.code in ("rate_limited", "unavailable"):
            until = None if s.retry_after is None else evidence.now.timestamp() + s.retry_after
            self.memory.cools(s.tool, until)
        words = content_words(self.question) if self.question and (prose or gained) else ()
        if words:
            self.memory.mentions(carried(words, prose or evidence.text[:_QUESTION_MAX]))

    def _steps(self, s: Situation, evidence: Evidence) -> list[Suggestion]:
        if s.code in _SUGGESTED and not evidence.failed:
            results = results_of(evidence.data if isinstance(evidence.result, str) else evidence.result)
            if results is None:
                results = [evidence.text] if evidence.text.strip() and s.code != "no_results" else []
            own = self._suggesters.ask(s, results)
            steps = None if own is None else bounded(s, own)
            if steps:
                return steps
        return next_steps(s)

    def _feedback(self, s: Situation, finding: Finding, evidence: Evidence, steps: list[Suggestion]) -> ToolFeedback:
        outcome = Finding(s.code, s.message, s.retry_after, s.retryable).outcome()
        whole = evidence.data if isinstance(evidence.result, str) else evidence.result
        count = count_of(whole) if s.code in ("ok", "partial") else None
        count = title_count(evidence) if count is None and s.code == "ok" else count
        envelope = ToolEnvelope(
            tool=s.tool,
            status=outcome.status,
            code=s.code,
            retryable=outcome.retryable,
            retry_after=outcome.retry_after,
            message=one_line(shown(s.message, 4_000), 400) if outcome.status == "error" else "",
            query=s.subject or None,
            count=count,
            missing=tuple(one_line(word.text, 60) for word in s.missing),
            suggestions=tuple(steps),
            doubtful=finding.doubtful,
        )
        self.memory.offered = {step.key: step.offer for step in steps}
        return ToolFeedback(
            tool_name=s.tool,
            status=outcome.status,
            result=self._body(s, finding, evidence),
            suggestions=tuple(step.text for step in steps),
            headline=self._headline(s, count),
            heading=self.catalog.text("section", "alternatives" if s.code in _ALTERNATIVES else "next"),
            note=self._note(s),
            envelope=envelope,
            catalog=self.catalog,
        )

    def _headline(self, s: Situation, count: int | None) -> str:
        tool = one_line(s.tool, 100)
        key: str = s.code
        if s.query is not None and s.code == "ok":
            key = "found_some" if count is None else ("found_one" if count == 1 else "found")
        elif s.code == "partial" and s.missing:
            key = "indirect"
        elif s.code == "no_results" and s.query is None:
            key = "nothing"
        return self.catalog.text("headline", key, tool=tool, count=count, query=s.subject[:SHOWN_QUERY])

    def _body(self, s: Situation, finding: Finding, evidence: Evidence) -> str | None:
        if s.code == "no_results":
            key = "no_results_encyclopedia" if is_encyclopedia(s.tool) else "no_results"
            key = "nothing" if s.query is None else key
            return self.catalog.text("note", key)
        if s.code in _BARE:
            return None
        if s.code in ("ok", "partial"):
            return body_text(evidence.text, evidence.data) or None
        return shown(evidence.message or finding.message) or None

    def _note(self, s: Situation) -> str:
        if not s.missing:
            return ""
        return self.catalog.text("note", "missing", words=", ".join(one_line(word.text, 60) for word in s.missing))

    def _plain(self, evidence: Evidence) -> ToolFeedback:
        code: Code = "error" if evidence.failed else "ok"
        envelope = ToolEnvelope(evidence.tool, "error" if evidence.failed else "success", code)
        return ToolFeedback(
            tool_name=evidence.tool,
            status=envelope.status,
            result=evidence.message,
            envelope=envelope,
            catalog=self.catalog,
        )


def title_count(evidence: Evidence) -> int | None:
    """How many results a text has, by its headings."""
    return sum(line.startswith("## ") for line in evidence.text[:200_000].splitlines()) or None
