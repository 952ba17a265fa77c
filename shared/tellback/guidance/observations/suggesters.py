"""Call a tool's own suggester for next steps, and check the lines that it returns.

A suggester is a callable, or an object with a method `suggest_next_steps`, that takes `query`, `results` and
`original_question` and returns lines. If it raises, hangs, or returns anything else, its lines are replaced by the
default ones and the failure is logged. Requirement G-71.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from tellback.errors import InvalidInput
from tellback.guidance.observations.calls import parse_calls
from tellback.guidance.observations.evidence import Suggestion
from tellback.guidance.observations.schemas import schema_problems
from tellback.guidance.observations.situation import CallSituation
from tellback.guidance.observations.tools import is_final_tool_name
from tellback.guidance.observations.values import is_sequence, safe_attribute
from tellback.guidance.repeats import attempt_fingerprint
from tellback.log import get_logger
from tellback.redaction import redact_text
from tellback.truncation import single_line

LINES_MAX: Final = 8  # checked, of which at most four are shown
LINE_MAX: Final = 400
FAILURES_MAX: Final = 3  # as of providers: G-39
DEFAULT_TIMEOUT: Final = 0.25  # seconds that a tool call may be delayed; the default of `TELLBACK_PROVIDER_TIMEOUT`

_logger = get_logger("tellback.guidance")


class Suggester(Protocol):
    """An object that suggests next steps for the results of one tool."""

    def suggest_next_steps(self, *, query: str, results: Sequence[Any], original_question: str) -> Sequence[str]:
        """Return lines, the most important first; write a call in a line as `tool(name: value)`."""
        ...


AnySuggester = Suggester | Callable[..., Sequence[str]]
_S = TypeVar("_S")

_registered: dict[str, Any] = {}


def suggester(tool: str) -> Callable[[_S], _S]:
    """Register the decorated function, or an instance of the decorated class, for a tool in this process."""

    def register(made: _S) -> _S:
        _registered[tool] = made() if isinstance(made, type) else made
        return made

    return register


class PromptSuggesters:
    """The suggesters of one prompt: its own, then those registered in the process."""

    def __init__(self, given: Mapping[str, AnySuggester] | None = None, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Check the given suggesters; each call may take `timeout` seconds.

        Raises:
            InvalidInput: One is neither callable nor has `suggest_next_steps`.
        """
        for name, made in (given or {}).items():
            if not callable(made) and not callable(safe_attribute(made, "suggest_next_steps")):
                raise InvalidInput(f"suggesters[{name!r}] is {type(made).__name__}; it needs suggest_next_steps")
        self._given = dict(given or {})
        self._timeout = timeout
        self._failures: dict[str, int] = {}

    def suggestions_for(self, s: CallSituation, results: Sequence[Any]) -> list[Suggestion] | None:
        """Return the lines of the tool's suggester that may be shown, or None for the default ones."""
        made = self._given.get(s.tool, _registered.get(s.tool))
        if made is None or self._failures.get(s.tool, 0) >= FAILURES_MAX:
            return None
        query = s.query[1] if s.query else ""
        found, reason = _run_suggester(made, query, results, s.question, self._timeout)
        if reason:
            hung = reason.startswith("did not")  # its thread cannot be ended, so a second one must not join it
            failures = FAILURES_MAX if hung else self._failures.get(s.tool, 0) + 1
            self._failures[s.tool] = failures
            ended = self._failures[s.tool] >= FAILURES_MAX
            _logger.warning("suggester.failed", tool=s.tool, reason=reason, disabled=ended)
            return None
        steps = [step for step in (_checked_step(s, line) for line in found[:LINES_MAX]) if step is not None]
        return steps or None


def _run_suggester(
    made: Any, query: str, results: Sequence[Any], question: str, timeout: float
) -> tuple[list[str], str]:
    method = safe_attribute(made, "suggest_next_steps")
    do = method if callable(method) else made
    answer: list[Any] = []
    failure: list[str] = []

    def work() -> None:
        try:
            answer.append(do(query=query, results=results, original_question=question))
        except BaseException as error:  # noqa: BLE001 - the code of others, in a thread of its own
            failure.append(f"raised {type(error).__name__}")

    # A daemon thread, since nothing can stop code that hangs: it must not keep the agent from exiting.
    thread = threading.Thread(target=work, name="tellback-suggester", daemon=True)
    thread.start()
    thread.join(timeout)
    if failure:
        return [], failure[0]
    if not answer:
        return [], f"did not return within {timeout:g} s"
    given = answer[0]
    if given is None:
        return [], ""
    if not is_sequence(given) or not all(isinstance(line, str) for line in given):
        return [], f"returned {type(given).__name__}, not a list of texts"
    return list(given), ""


def _checked_step(s: CallSituation, line: str) -> Suggestion | None:
    """Return the line if each call in it names an existing tool, parses, and has not failed before."""
    text = single_line(redact_text(line[: 4 * LINE_MAX]).encode("utf-8", "replace").decode(), LINE_MAX)
    if not text:
        return None
    call: tuple[str, dict[str, Any]] | None = None
    for tool, args in parse_calls(text):
        wrong = _rejection_reason(s, tool, args)
        if wrong:
            _logger.info("suggestion.dropped", tool=s.tool, names=single_line(tool, 100), reason=wrong)
            return None
        if args is not None and s.tool_exists(tool) and not is_final_tool_name(tool):
            call = call or (tool, args)
    if call is None:
        return Suggestion("custom", text, reason=text)
    return Suggestion("custom", text, call[0], call[1], text.partition(" → ")[0])


def _rejection_reason(s: CallSituation, tool: str, args: dict[str, Any] | None) -> str:
    """Return why a line with this call is dropped, or "": `file(s)` looks like a call but is prose."""
    if not s.tool_exists(tool):
        return "there is no such tool" if args is not None or "_" in tool else ""
    if args is None:
        return ""
    if schema_problems(s.tools[tool].parameters, args):
        return "the arguments do not parse"
    attempt = attempt_fingerprint(tool, args)
    failed = attempt in s.memory.failed or (attempt == s.fingerprint and s.code != "ok")
    return "that call has failed" if failed else ""
