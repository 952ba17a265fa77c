"""Puts the drawing of each mermaid diagram in its place, so that the site loads no script from elsewhere.

The pages keep the source of a diagram, and `docs/diagrams/` its drawing: PAGE-NUMBER.svg, whose first line holds the
digest of the source that it was drawn from. A diagram that was changed and not drawn again is a warning, which a strict
build does not pass. To draw: `python docs/hooks/diagrams.py`, with the package `mermaidx` installed beside the rest.
"""  # noqa: INP001 - loaded by path, in no package

from __future__ import annotations

import hashlib
import logging
import re
from importlib import import_module
from pathlib import Path
from posixpath import relpath
from typing import Any, Final

from mkdocs.structure.pages import Page

DOCS: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = "diagrams"
FENCE: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)

_logger = logging.getLogger("mkdocs.hooks.diagrams")


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Replace each diagram by its drawing."""
    uri = page.file.src_uri
    numbers = iter(range(1, 1_000))

    def drawn(fence: re.Match[str]) -> str:
        place = f"{FOLDER}/{_name(uri, next(numbers))}"
        if not _is_current(DOCS / place, fence[1]):
            _logger.warning("%s: draw %s again: python docs/hooks/diagrams.py", uri, place)
            return fence[0]
        target = relpath(place, str(Path(uri).parent))
        headings = HEADING.findall(markdown[: fence.start()])
        image = f"![Diagram: {headings[-1] if headings else uri}]({target}){{ .diagram }}"
        return f"[{image}]({target})"  # a click shows it in full size

    return FENCE.sub(drawn, markdown)


def draw() -> None:
    """Draw what has changed, and remove drawings whose diagram is gone."""
    kept: set[Path] = set()
    for page in sorted(DOCS.rglob("*.md")):
        uri = page.relative_to(DOCS).as_posix()
        for number, fence in enumerate(FENCE.finditer(page.read_text("utf-8")), 1):
            place = DOCS / FOLDER / _name(uri, number)
            kept.add(place)
            if not _is_current(place, fence[1]):
                place.parent.mkdir(exist_ok=True)
                place.write_text(f"{_stamp(fence[1])}\n{_svg(fence[1])}\n", "utf-8")
                print(place.relative_to(DOCS))  # noqa: T201 - what it did
    for place in set((DOCS / FOLDER).glob("*-[0-9]*.svg")) - kept:  # overview.svg is drawn by hand
        place.unlink()


def _svg(source: str) -> str:
    mermaid: Any = import_module("mermaidx")  # needed to draw, not to build
    text: str = mermaid.render(source, theme="neutral").svg()
    size = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"', text)
    assert size is not None, "mermaid gives every drawing a view box"
    return text.replace('width="100%"', f'width="{size[1]}" height="{size[2]}"', 1)  # so that a page can scale it


def _name(uri: str, number: int) -> str:
    return f"{uri.removesuffix('.md').replace('/', '-')}-{number}.svg"


def _stamp(source: str) -> str:
    return f"<!-- {hashlib.sha256(source.encode()).hexdigest()} -->"


def _is_current(place: Path, source: str) -> bool:
    return place.is_file() and place.read_text("utf-8").startswith(_stamp(source))


if __name__ == "__main__":
    draw()
