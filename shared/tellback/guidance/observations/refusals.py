"""Recognize calls that were not carried out because a person or a sibling call stopped them.

Such a call is neither a success nor a failure: the agent did nothing wrong, and trying again may be right or wrong. A
refusal by a policy, a hook or a sandbox is a failure with the code "denied". Requirement G-82.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.observations.evidence import Evidence, Finding

# At the beginning of the text only: a log may quote them. Claude Code, Codex, Gemini CLI, pi, OpenHands.
_STOPPED: Final = re.compile(
    r"\s{0,40}(?:<tool_use_error>|\[|Error: )?(?:"
    r"the user (?:doesn't|does not|did not|didn't) want to (?:proceed|take|continue|run|use)\b"
    r"|sibling tool call errored|cancelled: parallel tool call|(?:tool )?(?:call|use"
    r"|execution) (?:was )?(?:cancelled|canceled|aborted)\b"
    r"|(?:request )?interrupted by (?:the )?user|(?:command|operation|execution"
    r"|tool call) (?:was )?(?:aborted|interrupted)\b\W*$"
    r"|(?:command |operation |execution )?(?:was )?(?:aborted|cancelled|canceled|interrupted) by (?:the )?user"
    r"|(?:exec )?command rejected by user|operation cancelled\] reason: user"
    r"|the user (?:has )?(?:interrupted|cancelled|canceled|rejected|declined|denied)\b"
    r"|user (?:has )?(?:interrupted|cancelled|canceled|rejected|declined|denied)\b(?! (?:access|permission))"
    r"|(?:tool use|edit|change|action) (?:was )?rejected by (?:the )?user)",
    re.IGNORECASE,
)


def classify_cancelled(evidence: Evidence) -> Finding | None:
    """Classify a call that a user refused or stopped, or that was cancelled together with another."""
    text = evidence.message
    return Finding("cancelled", text) if len(text) <= _LONGEST and _STOPPED.match(text[:400]) else None


# Hooks, sandboxes and confined folders of hosts, where the words do not stand in a tool's error.
_DENIED: Final = re.compile(
    r"\s{0,40}(?:<tool_use_error>|Error: )?(?:failed in sandbox: sandbox denied\b"
    r"|File path must be within one of the workspace directories\b|Path not in workspace: )",
    re.IGNORECASE,
)


def classify_denied_by_host(evidence: Evidence) -> Finding | None:
    """Classify a call that the host's sandbox refused, in the host's own words."""
    text = evidence.message or evidence.text
    return Finding("denied", text) if len(text) <= _LONGEST and _DENIED.match(text[:400]) else None


# Claude Code adds what the user wrote; a page or a file that begins so is longer still.
_LONGEST: Final = 8_000
