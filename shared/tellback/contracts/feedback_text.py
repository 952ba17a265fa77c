"""The text form of feedback, for whoever has its parts: `Feedback.render`, and `tellback hook`, which has no types."""

from __future__ import annotations

from collections.abc import Iterable


def shown_name(provider_name: str) -> str:
    """A provider's name as it heads its feedback."""
    name = one_line(provider_name)
    return name.removesuffix("Feedback") or name


def feedback_text(
    provider_name: str, summary: str, observations: Iterable[tuple[str, str]], suggestions: Iterable[str]
) -> str:
    """`[Feedback - Deadline]`, a blank line, the summary, then lists; see `Feedback.render`."""
    lines = [f"[Feedback - {shown_name(provider_name)}]", "", *_quoted(summary)]
    evidence = [f"- {one_line(label)}: {one_line(value)}" for label, value in observations]
    advice = [f"→ {one_line(suggestion)}" for suggestion in suggestions]
    for part in (evidence, advice):
        lines += ["", *part] if part else []
    return "\n".join(lines)


def one_line(text: str) -> str:
    """The text with one space for each run of white space."""
    return " ".join(text.split())


def _quoted(summary: str) -> list[str]:
    return [f"> {line}" if line.lstrip().startswith("[Feedback") else line for line in summary.splitlines()]
