"""The words are data: in several languages, with templates of one's own, checked when they are loaded."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from tellback import ConfigurationError
from tellback.guidance.observations.catalog import LANGUAGES, catalog_for, load_catalog
from tellback.guidance.observations.observer import ToolObserver


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_template(language: str) -> None:
    english = tomllib.loads((files("tellback.guidance.observations") / "catalogs/en.toml").read_text("utf-8"))
    theirs = tomllib.loads((files("tellback.guidance.observations") / f"catalogs/{language}.toml").read_text("utf-8"))
    assert {table: set(texts) for table, texts in theirs.items()} == {
        table: set(texts) for table, texts in english.items()
    }


def test_german() -> None:
    seen = ToolObserver(tools=["wikipedia", "suche_web", "final_answer"], catalog=catalog_for("de-AT")).observe(
        "wikipedia", params={"query": "Xyzzyville"}, result=[]
    )
    assert seen.to_observation() == (
        '⚠ wikipedia fand keine Ergebnisse für "Xyzzyville"\n\n'
        "Dieses Thema gibt es vielleicht nicht, oder es hat keinen Wikipedia-Artikel.\n\n"
        "NÄCHSTE SCHRITTE:\n"
        '- Im Web suchen → suche_web(query: "Xyzzyville")\n'
        '- Andere Begriffe als "Xyzzyville" versuchen\n'
        '- Wenn es das Thema nicht gibt → final_answer(answer: "Keine Angaben zu Xyzzyville gefunden")'
    )


def test_russian() -> None:
    seen = ToolObserver(tools=["wikipedia"], catalog=catalog_for("ru")).observe(
        "wikipedia", params={"query": "x"}, http_status=429, headers={"Retry-After": "5"}
    )
    assert seen.to_observation() == (
        "✗ wikipedia: превышен лимит запросов\n\n"
        "ВАРИАНТЫ:\n"
        "- Если есть результаты других инструментов → ответить пользователю по ним\n"
        '- Подождать 5 \u0441 и повторить → wikipedia(query: "x")'
    )


def test_templates_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[headline]\nrate_limited = "{tool}: slow down!"\n[purpose]\nlaw_search = "the law"\n', "utf-8")
    catalog = load_catalog(path)
    seen = ToolObserver(tools=["law_search"], catalog=catalog).observe(
        "law_search", params={"query": "x"}, http_status=429
    )
    assert seen.status_line == "✗ law_search: slow down!"
    assert seen.heading == "ALTERNATIVES:"
    path.write_text('base = "de"\n[headline]\nok = "gut: {tool}"\n', "utf-8")
    assert load_catalog(path).text("section", "next") == "NÄCHSTE SCHRITTE:"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[headline", "Expected"),
        ("[headlines]\nok = 'x'", r"unknown table \[headlines\]"),
        ("headline = 'x'", r"unknown table \[headline\]"),
        ("[headline]\nokay = 'x'", "headline.okay is not known"),
        ("[headline]\nok = 3", "headline.ok is not one line"),
        ("[headline]\nok = ''", "headline.ok is not one line"),
        ('[headline]\nok = "a\\nb"', "headline.ok is not one line"),
        ("[headline]\nok = '{tool} {query}'", "headline.ok has {query}; what is filled in there: tool"),
        ("[headline]\nok = '{tool.__class__}'", "headline.ok has {tool.__class__}"),
        ("[headline]\nok = '{tool!r}'", "more than a name in braces"),
        ("[headline]\nok = '{'", "headline.ok"),
        ("base = 'xx'", "no observations in 'xx'"),
        ("base = 3", "base is not a language"),
        ("[headline]\nok = '" + "x" * 501 + "'", "not one line of at most 500"),
    ],
)
def test_a_template_that_is_wrong_is_refused_by_its_key(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match=reason):
        load_catalog(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml"):
        load_catalog(tmp_path / "nowhere.toml")
    (tmp_path / "large.toml").write_bytes(b"# " + b"x" * (300 << 10))
    with pytest.raises(ConfigurationError, match="over"):
        load_catalog(tmp_path / "large.toml")
