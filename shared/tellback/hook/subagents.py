"""Notes for the main agent about subagents that ended stuck or failed. Requirement G-77."""

from __future__ import annotations

from typing import Any, Final, cast

from tellback.contracts.feedback_text import feedback_text
from tellback.hook.event import HookEvent
from tellback.hook.reading import AgentView, progress_of
from tellback.sanitize import inert_line

LEAST_FAILURES: Final = 2  # in a row at the end; a single one is often the very finding, such as a test that fails
LAST_CALLS: Final = 5  # a warning within so many calls of the end was not overcome
_CHARS: Final = 200


def ending_of(event: HookEvent, view: AgentView) -> str:
    """Return what the main agent should know about a subagent that ends; "" if it did not end stuck or failed."""
    state = view.state
    failing, calls = int(progress_of(state).get("failing") or 0), int(state.get("calls") or 0)
    said = cast("dict[str, Any]", state.get("last_feedback") or {})
    recent = calls - int(said.get("call_index") or 0) < LAST_CALLS
    stuck = said.get("severity") == "warning" and recent
    if failing < LEAST_FAILURES and not stuck:
        return ""
    name = inert_line(str(event.given.get("agent_type") or "subagent"))[:_CHARS]
    ended = f"its last {failing} tool calls failed" if failing >= LEAST_FAILURES else "it was stuck"
    evidence = [("Calls", str(calls))]
    own = [call for call in view.calls if call.get("evaluation") == event.evaluation and call.get("error")]
    if failing >= LEAST_FAILURES and own:
        evidence.append(("Last error", inert_line(str(own[-1]["error"]))[:_CHARS]))
    if stuck:
        evidence.append(("It was told", inert_line(str(said.get("summary") or ""))[:_CHARS]))
    advice = ["Check what it reports before you build on it."]
    return feedback_text("Subagent", f"The subagent {name} has ended; {ended}.", evidence, advice)
