"""Render `ToolFeedback`, the text that an agent reads in place of a tool's bare result.

Search results become sections, other data stays JSON. A web page or a mail could imitate our sections to give the agent
orders, so lines of a result that look like one are quoted with `> `. Requirements G-51 and G-52.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, cast, get_args

from tellback.contracts.guidance import CallStatus
from tellback.errors import InvalidInput
from tellback.guidance.observations.catalog import Catalog, catalog_for
from tellback.guidance.observations.emptiness import results_in
from tellback.guidance.observations.evidence import ToolEnvelope
from tellback.guidance.observations.values import as_list, as_mapping, display_text, trim_and_redact
from tellback.quoting import quote_forged_lines, quote_value
from tellback.sanitize import inert_line
from tellback.truncation import single_line

SIGNS: Final[dict[CallStatus, str]] = {"success": "✓", "partial": "⚠", "error": "✗"}
_DEFAULTS: Final[dict[CallStatus, str]] = {"success": "ok", "partial": "partial", "error": "error"}
# Characters of a line that a tool or a host wrote: room for a call of `calls.CALL_MAX` and the words around it.
_LINE_MAX: Final = 480


@dataclass(frozen=True)
class ToolFeedback:
    """An observation in three parts: what happened, what you have, and what to do next.

    `status` is "success", "partial" or "error"; `suggestions` are lines. `prompt.observe` sets the other fields;
    without them the status line says "succeeded", "returned partial results" or "failed". `envelope` is the same for
    programs.
    """

    tool_name: str
    status: CallStatus
    result: object = None
    suggestions: Sequence[str] = ()
    _: KW_ONLY
    headline: str = ""
    heading: str = ""
    note: str = ""
    envelope: ToolEnvelope | None = field(default=None, compare=False)
    catalog: Catalog = field(default_factory=lambda: catalog_for("en"), repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a status that has no sign, and a text as suggestions, each of whose letters would be one."""
        status, lines = cast("Any", self.status), cast("Any", self.suggestions)
        if status not in get_args(CallStatus):
            raise InvalidInput(f"status is {status!r}; use one of {', '.join(get_args(CallStatus))}")
        if isinstance(lines, str) or not isinstance(lines, Sequence):
            raise InvalidInput(f"suggestions is {type(lines).__name__}; use a list of texts")

    def to_observation(self) -> str:
        """Return the text: status line, result and next steps, with an empty line between them."""
        return "\n\n".join(part for part in (self.status_line, self.result_section, self.suggestions_section) if part)

    @property
    def status_line(self) -> str:
        """The first part, on one line: what happened."""
        said = self.headline or self.catalog.text(
            "headline", _DEFAULTS[self.status], tool=single_line(self.tool_name, 100)
        )
        return f"{SIGNS[self.status]} {_shown(said)}"

    @property
    def result_section(self) -> str | None:
        """The second part: the result, with forged lines quoted, and a note on what it lacks; None without any."""
        body = (
            ""
            if self.result is None
            else quote_forged_lines(
                display_text(trim_and_redact(self.result)), self.catalog.headings, signs=True
            ).strip("\n")
        )
        ours = self.catalog.tables["note"]["missing"].partition("{")[0]
        note = single_line(inert_line(self.note), _LINE_MAX) if self.note.startswith(ours) else _shown(self.note)
        return "\n".join(part for part in (body, note) if part.strip()) or None

    @property
    def suggestions_section(self) -> str | None:
        """The third part, as a list: what to do next; None without suggestions."""
        if not self.suggestions:
            return None
        heading = self.heading or self.catalog.text("section", "next")
        return "\n".join([heading, *(f"- {_shown(line)}" for line in self.suggestions)])


def _shown(line: str) -> str:
    return quote_value(single_line(line, _LINE_MAX))


_TITLES: Final = ("title", "name", "heading", "headline")
_TEXTS: Final = ("text", "snippet", "summary", "content", "body", "description", "extract", "abstract")
_LINKS: Final = ("url", "link", "href")
# A result with any other field would lose it as a section, so all results then stay JSON.
_BESIDE: Final = frozenset({*_TITLES, *_TEXTS, *_LINKS, "id", "score", "source", "date", "rank", "position", "pageid"})


def format_body(text: str, data: object) -> str:
    """Return search results as sections, each under its title, and any other text as it is."""
    if isinstance(data, str):
        return display_text(data)
    results = as_list(results_in(data))
    if not results:
        return text
    parts = [result if isinstance(result, str) else _result_section(as_mapping(result)) for result in results]
    return text if any(part is None for part in parts) else display_text("\n\n".join(part for part in parts if part))


def _result_section(result: Mapping[str, Any]) -> str | None:
    title, said, link = (_first_field(result, names) for names in (_TITLES, _TEXTS, _LINKS))
    if not title or not said or set(result) - _BESIDE:
        return None
    return "\n".join(part for part in (f"## {single_line(title, 200)}", link, said) if part)


def _first_field(result: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := result.get(name), str) and value.strip()), "")


def first_title(text: str, data: object) -> str:
    """Return the title of the first result, or "" without one."""
    results = as_list(results_in(data))
    if results:
        return single_line(_first_field(as_mapping(results[0]), _TITLES), 60)
    line = text[:400].lstrip().partition("\n")[0]
    return single_line(line.lstrip("#").strip(), 60) if line.startswith("#") else ""
