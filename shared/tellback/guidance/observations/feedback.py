"""`ToolFeedback`: the text that an agent reads in place of a tool's bare result.

Source: actionable-feedback, "Tool Result Wrapper" and "Feedback Templates".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from tellback.contracts.guidance import Status
from tellback.guidance.observations.catalog import Catalog, catalog_of, our_headings
from tellback.guidance.observations.envelope import ToolEnvelope
from tellback.guidance.observations.quoting import quoted
from tellback.guidance.observations.trimming import readable
from tellback.guidance.observations.values import one_line, shown

SIGNS: Final[dict[Status, str]] = {"success": "✓", "partial": "⚠", "error": "✗"}
_DEFAULTS: Final[dict[Status, str]] = {"success": "ok", "partial": "partial", "error": "error"}
_LINE_MAX: Final = 480


@dataclass(frozen=True)
class ToolFeedback:
    """What happened, what do you have, what should you do next: the three parts of an observation.

    `status` is "success", "partial" or "error"; `suggestions` are lines. The other fields are set by `prompt.observe`;
    without them it has the source document's words. `envelope` is the same for programs.
    """

    tool_name: str
    status: Status
    result: object = None
    suggestions: Sequence[str] = ()
    _: KW_ONLY
    headline: str = ""
    heading: str = ""
    note: str = ""
    envelope: ToolEnvelope | None = field(default=None, compare=False)
    catalog: Catalog = field(default_factory=lambda: catalog_of("en"), repr=False, compare=False)

    def to_observation(self) -> str:
        """The text: status line, result, next steps, with an empty line between those that there are."""
        return "\n\n".join(part for part in (self.status_line, self.result_section, self.suggestions_section) if part)

    @property
    def status_line(self) -> str:
        """What happened, on one line."""
        said = self.headline or self.catalog.text(
            "headline", _DEFAULTS[self.status], tool=one_line(self.tool_name, 100)
        )
        return f"{SIGNS[self.status]} {one_line(said, _LINE_MAX)}"

    @property
    def result_section(self) -> str | None:
        """What there is: the result, in which no line can pass for one of ours, and a note on what it lacks."""
        body = (
            ""
            if self.result is None
            else quoted(shown(readable(self.result)), self.catalog.headings + our_headings()).strip("\n")
        )
        note = one_line(self.note, _LINE_MAX)
        return "\n".join(part for part in (body, note) if part.strip()) or None

    @property
    def suggestions_section(self) -> str | None:
        """What to do next, as a list; None where there is nothing to say."""
        if not self.suggestions:
            return None
        heading = self.heading or self.catalog.text("section", "next")
        return "\n".join([heading, *(f"- {one_line(line, _LINE_MAX)}" for line in self.suggestions)])
