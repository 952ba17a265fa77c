"""A result as a page to read: search results as sections, other data as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tellback.guidance.observations.emptiness import results_of
from tellback.guidance.observations.values import fields_of, one_line, shown

_TITLES: Final = ("title", "name", "heading", "headline")
_TEXTS: Final = ("text", "snippet", "summary", "content", "body", "description", "extract", "abstract")
_LINKS: Final = ("url", "link", "href")
_BESIDE: Final = frozenset({*_TITLES, *_TEXTS, *_LINKS, "id", "score", "source", "date", "rank", "position", "pageid"})


def body_text(text: str, data: object) -> str:
    """The text as it is, or the search results that it is the JSON of, each under its title."""
    if isinstance(data, str):
        return shown(data)
    results = results_of(data)
    if not results:
        return text
    parts = [result if isinstance(result, str) else _section(fields_of(result)) for result in results]
    return text if any(part is None for part in parts) else shown("\n\n".join(part for part in parts if part))


def _section(result: Mapping[str, Any]) -> str | None:
    title, said, link = (_first(result, names) for names in (_TITLES, _TEXTS, _LINKS))
    if not title or not said or set(result) - _BESIDE:
        return None
    return "\n".join(part for part in (f"## {one_line(title, 200)}", link, said) if part)


def _first(result: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := result.get(name), str) and value.strip()), "")


def title_of(text: str, data: object) -> str:
    """The title of the first result; "" where it has none."""
    results = results_of(data)
    if results:
        return one_line(_first(fields_of(results[0]), _TITLES), 60)
    line = text[:400].lstrip().partition("\n")[0]
    return one_line(line.lstrip("#").strip(), 60) if line.startswith("#") else ""
