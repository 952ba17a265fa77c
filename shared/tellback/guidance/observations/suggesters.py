"""Next steps of a tool's own, asked for by name and kept apart from the agent.

A suggester is a callable, or an object with a method `suggest_next_steps`, that takes `query`, `results` and
`original_question` and returns lines. One that raises, hangs, or returns what is no list of lines costs its own
suggestions: the default ones are used, and a log line tells. Source: actionable-feedback, "Smart Suggestions".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from tellback.errors import InvalidInput
from tellback.guidance.attempts import attempt_of
from tellback.guidance.observations.calls import calls_in
from tellback.guidance.observations.envelope import Suggestion
from tellback.guidance.observations.schemas import problems
from tellback.guidance.observations.situation import Situation
from tellback.guidance.observations.tools import is_final
from tellback.guidance.observations.values import attribute, is_row, one_line
from tellback.log import get_logger
from tellback.redaction import redact_text

LINES_MAX: Final = 8
LINE_MAX: Final = 400
FAILURES_MAX: Final = 3
DEFAULT_PATIENCE: Final = 0.25

_log = get_logger("tellback.guidance")


class Suggester(Protocol):
    """A tool that knows what to do with its results."""

    def suggest_next_steps(self, *, query: str, results: Sequence[Any], original_question: str) -> Sequence[str]:
        """Lines, the most important first; a call in one is written `tool(name: value)`."""
        ...


Suggesting = Suggester | Callable[..., Sequence[str]]
_S = TypeVar("_S")

_registered: dict[str, Any] = {}


def suggester(tool: str) -> Callable[[_S], _S]:
    """Register the decorated function, or an instance of the decorated class, for a tool in all prompts here."""

    def register(made: _S) -> _S:
        _registered[tool] = made() if isinstance(made, type) else made
        return made

    return register


class Suggesters:
    """The suggesters of one prompt: those that it was given, then those of the process."""

    def __init__(self, given: Mapping[str, Suggesting] | None = None, patience: float = DEFAULT_PATIENCE) -> None:
        """Take suggesters by tool; each may take `patience` seconds.

        Raises:
            InvalidInput: one is neither a callable nor has `suggest_next_steps`.
        """
        for name, made in (given or {}).items():
            if not callable(made) and not callable(attribute(made, "suggest_next_steps")):
                raise InvalidInput(f"suggesters[{name!r}] is {type(made).__name__}; it needs suggest_next_steps")
        self._given = dict(given or {})
        self._patience = patience
        self._failures: dict[str, int] = {}

    def ask(self, s: Situation, results: Sequence[Any]) -> list[Suggestion] | None:
        """The lines of the tool's suggester that may be shown; None where there are none."""
        made = self._given.get(s.tool, _registered.get(s.tool))
        if made is None or self._failures.get(s.tool, 0) >= FAILURES_MAX:
            return None
        query = s.query[1] if s.query else ""
        found, reason = _run(made, query, results, s.question, self._patience)
        if reason:
            hung = reason.startswith("did not")  # its thread is still there: one is enough
            failures = FAILURES_MAX if hung else self._failures.get(s.tool, 0) + 1
            self._failures[s.tool] = failures
            ended = self._failures[s.tool] >= FAILURES_MAX
            _log.warning("suggester.failed", tool=s.tool, reason=reason, disabled=ended)
            return None
        steps = [step for step in (_step(s, line) for line in found[:LINES_MAX]) if step is not None]
        return steps or None


def _run(made: Any, query: str, results: Sequence[Any], question: str, patience: float) -> tuple[list[str], str]:
    method = attribute(made, "suggest_next_steps")
    do = method if callable(method) else made
    answer: list[Any] = []
    failure: list[str] = []

    def work() -> None:
        try:
            answer.append(do(query=query, results=results, original_question=question))
        except BaseException as error:  # noqa: BLE001 - the code of others, in a thread of its own
            failure.append(f"raised {type(error).__name__}")

    thread = threading.Thread(target=work, name="tellback-suggester", daemon=True)
    thread.start()
    thread.join(patience)
    if failure:
        return [], failure[0]
    if not answer:
        return [], f"did not return within {patience:g} s"
    given = answer[0]
    if given is None:
        return [], ""
    if not is_row(given) or not all(isinstance(line, str) for line in given):
        return [], f"returned {type(given).__name__}, not a list of texts"
    return list(given), ""


def _step(s: Situation, line: str) -> Suggestion | None:
    """The line, if every call in it is of a tool that exists, parses, and did not fail before."""
    text = one_line(redact_text(line[: 4 * LINE_MAX]).encode("utf-8", "replace").decode(), LINE_MAX)
    if not text:
        return None
    call: tuple[str, dict[str, Any]] | None = None
    for tool, args in calls_in(text):
        wrong = _wrong(s, tool, args)
        if wrong:
            _log.info("suggestion.dropped", tool=s.tool, names=one_line(tool, 100), reason=wrong)
            return None
        if args is not None and s.exists(tool) and not is_final(tool):
            call = call or (tool, args)
    if call is None:
        return Suggestion("custom", text, reason=text)
    return Suggestion("custom", text, call[0], call[1], text.partition(" → ")[0])


def _wrong(s: Situation, tool: str, args: dict[str, Any] | None) -> str:
    """Why a line with this call must not be shown; "" if it may. A word before a bracket is not always a call."""
    if not s.exists(tool):
        return "there is no such tool" if args is not None or "_" in tool else ""
    if args is None:
        return ""
    if problems(s.tools[tool].parameters, args):
        return "the arguments do not parse"
    attempt = attempt_of(tool, args)
    failed = attempt in s.memory.failed or (attempt == s.attempt and s.code != "ok")
    return "that call has failed" if failed else ""
