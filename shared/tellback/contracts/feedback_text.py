"""The text form of feedback, shared by `Feedback.render` and `tellback hook`.

The hook has only parsed JSON and starts with every tool call, so this module imports no message types.
"""

from __future__ import annotations

from collections.abc import Iterable

from tellback.quoting import quote_summary, quote_value


def display_name(provider_name: str) -> str:
    """Return a provider's name as the heading of its feedback shows it."""
    name = quote_value(provider_name)
    return name.removesuffix("Feedback") or name


def feedback_text(
    provider_name: str, summary: str, observations: Iterable[tuple[str, str]], suggestions: Iterable[str]
) -> str:
    """Return `[Feedback - Deadline]`, a blank line, the summary, then the lists; see `Feedback.render`."""
    lines = [f"[Feedback - {display_name(provider_name)}]", "", *quote_summary(summary)]
    evidence = [f"- {quote_value(label)}: {quote_value(value)}" for label, value in observations]
    advice = [f"→ {quote_value(suggestion)}" for suggestion in suggestions]
    for part in (evidence, advice):
        lines += ["", *part] if part else []
    return "\n".join(lines)
