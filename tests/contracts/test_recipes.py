"""The steps of the recipes in CONTRIBUTING.md that no other test would miss."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

import msgspec
import pytest
import typer
from babel import Locale
from babel.messages.pofile import read_po

import tellback
from tellback import guidance
from tellback.alerts.settings import AlertSettings
from tellback.cli import app
from tellback.guidance.observations.catalog import LANGUAGES
from tellback.guidance.registry import BUILT_IN
from tellback.settings import Settings
from tellback.turns.fallback_text import KEYS
from tellback.turns.pipeline import runner, systems
from tests.contracts.test_house_style import MODULE_LINES
from tests.support.pages import ROOT
from tests.unit.test_turn_words import LANGUAGES as TESTED_LANGUAGES

SHARED: Final = ROOT / "shared" / "tellback"
SOURCES: Final = {
    path: path.read_text("utf-8") for top in ("shared", "workers", "beat") for path in (ROOT / top).rglob("*.py")
}
PAGES: Final = {path: path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md")}


def classes_with(module: Any, *methods: str) -> list[type[Any]]:
    """The public classes that a module defines and that have these methods."""
    return [
        cls
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if name[0] != "_" and cls.__module__ == module.__name__ and all(hasattr(cls, method) for method in methods)
    ]


def built_in_providers() -> list[type[Any]]:
    """The providers that the modules of `tellback.guidance` define, wherever they are."""
    modules = [import_module(f"{guidance.__name__}.{found.name}") for found in iter_modules(guidance.__path__)]
    return [cls for module in modules for cls in classes_with(module, "should_run", "provide") if is_dataclass(cls)]


@pytest.mark.parametrize("provider", built_in_providers())
def test_a_built_in_provider_is_registered_exported_and_documented(provider: type[Any]) -> None:
    name = provider.__name__
    assert provider in BUILT_IN
    assert name in tellback._EXPORTS
    assert re.search(rf"^\| `{name}\b", PAGES[ROOT / "docs" / "loops" / "guidance.md"], re.MULTILINE)
    assert any(f"{name}(" in path.read_text("utf-8") for path in (ROOT / "tests" / "unit").rglob("*.py"))


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_a_setting_is_read(name: str) -> None:
    """It is read as an attribute, in a method of `Settings`, or by `tellback hook`, which does not import them."""
    own = SHARED / "settings.py"
    others = "\n".join(text for path, text in SOURCES.items() if path != own)
    assert re.search(rf"\.{name}\b|\"{name}\"|TELLBACK_{name.upper()}\b", others) or f"self.{name}" in SOURCES[own]


def stated_defaults(text: str) -> Iterator[tuple[str, float]]:
    """Each default that a page states beside the variable of its setting, as in `TELLBACK_BEAT_PERIOD` (2 s)."""
    units = {"MiB": 1 << 20, "min": 60}
    for name, number, unit in re.findall(r"`TELLBACK_([A-Z_]+)`(?: seconds)? \((\d[\d.,]*)(?: (MiB|min))?\b", text):
        yield name.lower(), float(number.replace(",", "")) * units.get(unit, 1)


def test_a_default_that_a_page_states_is_in_force() -> None:
    """Compose has variables of its own, which are not settings."""
    alerts = {f"alert_{name}": value for name, value in msgspec.structs.asdict(AlertSettings()).items()}
    defaults = {**msgspec.structs.asdict(Settings()), **alerts}
    stated = {
        (path.relative_to(ROOT).as_posix(), name, number)
        for path, text in PAGES.items()
        for name, number in stated_defaults(text)
        if name in defaults
    }
    assert len(stated) > 15
    assert [each for each in stated if each[2] != defaults[each[1]]] == []


def test_an_error_rule_has_a_known_key_and_a_test() -> None:
    tests = (ROOT / "tests" / "unit" / "test_turn_systems.py").read_text("utf-8")
    cases = re.findall(r'\(("[^\n]*"), \w+_KEY\),$', tests, re.MULTILINE)
    for rule in systems.RULES:
        assert rule.key in KEYS
        assert any(re.search(rule.pattern, case, re.IGNORECASE) for case in cases), rule.pattern


@pytest.mark.parametrize("system", classes_with(systems, "should_process", "process"))
def test_a_system_of_the_pipeline_runs_and_is_documented(system: type[Any]) -> None:
    assert system.name in runner.BUILT_IN
    assert f"{system.__name__}(" in inspect.getsource(runner.TurnPipeline)
    assert f"| `{system.name}`" in PAGES[ROOT / "docs" / "loops" / "turns-pipeline.md"]


def test_a_file_that_a_recipe_names_has_room() -> None:
    """A field or a wrapper takes up to 20 lines; in a file of 400 it would fail the check of sizes."""
    recipes = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Recipes\n")[2]
    places = [base / name for name in re.findall(r"`([\w/]+\.py)`", recipes) for base in (ROOT, SHARED)]
    named = [path for path in dict.fromkeys(places) if path in SOURCES]
    assert len(named) > 20
    assert [path.name for path in named if len(SOURCES[path].splitlines()) > MODULE_LINES - 20] == []


def test_every_command_is_registered() -> None:
    modules = [path.stem for path, text in SOURCES.items() if path.parent == SHARED / "cli" and "def register(" in text]
    registers = {import_module(f"tellback.cli.{module}").register for module in modules}
    assert registers <= set(app._COMMANDS)


def test_every_command_is_described_outside_the_generated_page() -> None:
    text = "\n".join(PAGES.values())
    names = list(getattr(typer.main.get_command(app.app), "commands", {}))
    assert names
    assert not [name for name in names if not re.search(rf"tellback {name}\b", text)]


def test_every_command_is_run_by_a_test() -> None:
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = list(getattr(typer.main.get_command(app.app), "commands", {}))
    assert not [name for name in names if f'"{name}"' not in text]


def test_every_catalog_is_tested_and_complete() -> None:
    folders = sorted(path.parent.parent.name for path in (SHARED / "locale").glob("*/LC_MESSAGES/tellback.po"))
    assert folders == sorted(TESTED_LANGUAGES)
    named = PAGES[ROOT / "docs" / "loops" / "turns.md"]
    assert [tag for tag in folders if f"{Locale.parse(tag).get_display_name('en')}," not in named] == []
    for path in (SHARED / "locale").glob("*/LC_MESSAGES/tellback.po"):
        with path.open("rb") as file:
            assert {str(message.id) for message in read_po(file) if message.id} == KEYS, path
    observations = (SHARED / "guidance" / "observations" / "catalogs").glob("*.toml")
    assert sorted(path.stem for path in observations) == sorted(LANGUAGES)


def test_every_language_of_observations_is_named() -> None:
    named = f"{', '.join(LANGUAGES[:-1])} or {LANGUAGES[-1]}"
    assert f"observations of tool calls: {named}." in SOURCES[SHARED / "settings.py"]
    assert f"`TELLBACK_OBSERVATION_LANGUAGE` to {named}." in PAGES[ROOT / "docs" / "loops" / "observations.md"]


def test_every_message_to_users_is_documented() -> None:
    page = PAGES[ROOT / "docs" / "loops" / "turns-pipeline.md"]
    assert not [key for key in KEYS if f"`{key}`" not in page]


def test_recipes_name_files_that_exist() -> None:
    """Paths are full, or relative to `shared/tellback` or its `state/lua`."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Recipes")[2]
    named = {name for name in re.findall(r"`((?:\w+/)+[\w.-]+\.\w+)`", text) if not re.search(r"[A-Z]{4}|^lua/", name)}
    assert named
    homes = (ROOT, SHARED, SHARED / "state" / "lua")
    assert [name for name in sorted(named) if not any((home / name).exists() for home in homes)] == []
