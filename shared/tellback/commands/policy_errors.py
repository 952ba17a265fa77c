"""The errors of commands that a host's policy refuses or ends, for the host's worker and for the runner."""

from __future__ import annotations


def refused_by_policy(rule: str, reason: str) -> str:
    """Return the error of a command that the policy refuses."""
    return f"refused by this host's policy, rule {rule}: {reason}"


def limit_error(rule: str, limit: int) -> str:
    """Return the error of a command that was killed at a limit of the policy."""
    return f"killed by this host's policy, rule {rule}: over {limit}"
