"""The site is built without a warning, names all that it promises to name, and loads nothing from elsewhere.

Tests of the built site are slow: building it takes half a minute of a core.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mkdocs.structure.pages import Page

import tellback
from docs.hooks import diagrams
from tellback.contracts.codec import MESSAGES, schema_of
from tellback.names import shard_of, turn_routing
from tellback.settings import PREFIX, Settings
from tellback.state.keys import FAMILIES
from tests.support.pages import ROOT
from tests.support.processes import run_program

LOADING = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    run_program(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


def page(site: Path, name: str) -> str:
    return (site / name / "index.html").read_text("utf-8")


@pytest.mark.slow
def test_the_configuration_names_every_setting(site: Path) -> None:
    text = page(site, "configuration")
    missing = [name for name in Settings.__struct_fields__ if f"<code>{PREFIX}{name.upper()}</code>" not in text]
    assert not missing


@pytest.mark.slow
def test_the_architecture_names_every_key(site: Path) -> None:
    text = page(site, "architecture")
    assert not [name for name in FAMILIES if f"<code>{name}</code>" not in text]


@pytest.mark.slow
def test_the_reference_describes_every_exported_name(site: Path) -> None:
    texts = [file.read_text("utf-8") for file in (site / "reference").glob("*/index.html")]
    missing = [name for name in tellback._EXPORTS if not any(f'id="tellback.{name}"' in text for text in texts)]
    assert not missing
    index = page(site, "reference")
    assert not [name for name in tellback._EXPORTS if f'#tellback.{name}"' not in index], "the index leads to each"


@pytest.mark.slow
def test_the_command_line_page_shows_every_command(site: Path) -> None:
    text = page(site, "cli")
    tried = run_program(
        [
            sys.executable,
            "-c",
            "import typer; from tellback.cli.app import app; print(*typer.main.get_command(app).commands)",
        ],
        check=True,
    )
    names = tried.stdout.split()
    assert "dead" in names
    assert not [name for name in names if f"<code>tellback {name}</code>" not in text]


@pytest.mark.slow
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_the_messages_page_shows_every_field_and_offers_the_schema(site: Path, message: Any) -> None:
    text = page(site, "messages").partition(f'id="{message.__name__.lower()}"')[2].partition("<h3")[0]
    assert not [name for name in schema_of(message)["properties"] if f"<code>{name}</code>" not in text]
    assert json.loads((site / "schemas" / f"{message.__name__}.json").read_text("utf-8")) == schema_of(message)


def test_the_worked_examples_of_the_shard_rule_are_right() -> None:
    rows = re.findall(
        r"^\|.*\| (`.*) \| (\d+) \| (\d) \|$", (ROOT / "docs" / "messages.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(rows) == 3
    for shown, crc, shard in rows:
        parts = re.findall(r"`([^`]+)`", shown)
        routing = parts[0] if len(parts) == 1 else turn_routing(parts[0], parts[1])
        assert (shard_of(routing, 1 << 32), shard_of(routing, 4)) == (int(crc), int(shard))


class Loads(HTMLParser):
    """The addresses that a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.mermaid = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in LOADING and values.get("rel") != "canonical":
            self.urls.append(values.get(LOADING[tag]) or "")
        self.mermaid |= "mermaid" in (values.get("class") or "")


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Material would fetch mermaid from a network at view time, for an element of that class alone."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for path in pages:
        loads = Loads()
        loads.feed(path.read_text("utf-8"))
        assert not [url for url in loads.urls if re.match(r"(https?:)?//", url)], path
        assert not loads.mermaid, path
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text("utf-8")), style


def test_a_diagram_that_was_changed_needs_a_new_drawing(caplog: pytest.LogCaptureFixture) -> None:
    here = cast("Page", SimpleNamespace(file=SimpleNamespace(src_uri="architecture.md")))
    source = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    with caplog.at_level(logging.WARNING):
        assert "```mermaid" not in diagrams.on_page_markdown(source, page=here)
        assert not caplog.records
        assert "```mermaid" in diagrams.on_page_markdown(source.replace("agent host", "client"), page=here)
        assert "draw diagrams/architecture-1.svg again" in caplog.text


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_the_links_of_the_top_folder_lead_somewhere(name: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text("utf-8"))
    assert not [target for target in targets if "://" not in target and not (ROOT / target).exists()]


def test_the_changelog_names_every_exported_name() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert not [name for name in tellback._EXPORTS if f"`tellback.{name}" not in text]
