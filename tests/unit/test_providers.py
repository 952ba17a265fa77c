"""Names of providers, and the way that providers are sent, rebuilt and checked."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from tellback import (
    ConfigurationError,
    DeadlineFeedback,
    Feedback,
    FeedbackContext,
    FeedbackProvider,
    FeedbackProviderConfig,
    FeedbackTrigger,
    InvalidInput,
    Observation,
    ProviderSpec,
    StaticFeedback,
    StuckFeedback,
)
from tellback.guidance.provider import ITEMS_MAX, SUMMARY_MAX, ProviderFailure, invoke_provider, provider_spec
from tellback.guidance.registry import ProviderRegistry, load_registry

TRIGGER = FeedbackTrigger(every_n_calls=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONTEXT = FeedbackContext(session="s", prompt="p", now=NOW, began_at=NOW, tool_call_count=3)
UNTYPED: Any = Feedback  # as hosts without a type checker write it


@dataclass(frozen=True)
class ToolUsageMonitor:
    """Written as a user would; it bears the name of a built-in one and replaces it."""

    max_calls_without_progress: int = 20

    @property
    def name(self) -> str:
        return "ToolUsageMonitor"

    def should_run(self, *, context: FeedbackContext) -> bool:
        return True

    def provide(self, *, context: FeedbackContext) -> Feedback:
        return Feedback(provider_name=self.name, summary=f"custom {self.max_calls_without_progress}")


class Plain:
    """A provider that is not a dataclass, so that it cannot be sent."""

    name = "Plain"
    answer: Any = None

    def should_run(self, *, context: FeedbackContext) -> bool:
        return True

    def provide(self, *, context: FeedbackContext) -> Any:
        return self.answer


@dataclass
class Opaque(Plain):
    """A field that is no plain value."""

    thing: object = field(default_factory=object)


def config(provider: FeedbackProvider) -> FeedbackProviderConfig:
    return FeedbackProviderConfig(provider=provider, trigger=TRIGGER)


def test_a_provider_travels_as_its_name_and_fields() -> None:
    assert provider_spec(config(DeadlineFeedback(warning_threshold_seconds=60))) == ProviderSpec(
        name="DeadlineFeedback", trigger=TRIGGER, fields={"warning_threshold_seconds": 60}
    )


def test_a_spec_travels_as_it_is() -> None:
    spec = ProviderSpec(name="Elsewhere", trigger=TRIGGER, fields={"n": 1})
    assert provider_spec(spec) is spec


def test_what_is_sent_is_rebuilt_equal() -> None:
    provider = StaticFeedback("Stay on the task.", ("Breathe.",), "caution", "Reminder")
    assert ProviderRegistry().build(provider_spec(config(provider))) == provider


@pytest.mark.parametrize("provider", [object(), "a name", DeadlineFeedback, None])
def test_what_is_no_provider_is_refused_on_the_host(provider: Any) -> None:
    with pytest.raises(InvalidInput, match="FeedbackProvider"):
        provider_spec(config(provider))


def test_fields_that_cannot_be_sent_are_refused_on_the_host() -> None:
    with pytest.raises(InvalidInput, match="Opaque: make it a dataclass with plain fields"):
        provider_spec(config(Opaque()))


@pytest.mark.parametrize("trigger", [None, 5, {"every_n_calls": 1}])
def test_what_is_no_trigger_is_refused_on_the_host(trigger: Any) -> None:
    with pytest.raises(InvalidInput, match=r"the trigger of DeadlineFeedback is .*; use FeedbackTrigger"):
        provider_spec(FeedbackProviderConfig(DeadlineFeedback(), trigger))


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        (DeadlineFeedback(cast("float", "soon")), "DeadlineFeedback: Expected `float`, got `str`"),
        (DeadlineFeedback(float("nan")), "DeadlineFeedback: Expected `float`"),
        (StaticFeedback("x", cast("Any", "Breathe.")), "StaticFeedback: Expected `array`"),
        (StaticFeedback("\ud800"), "StaticFeedback: .*surrogates"),
    ],
)
def test_fields_from_which_no_worker_could_make_it_are_refused_on_the_host(
    provider: FeedbackProvider, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        provider_spec(config(provider))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"summary": ""}, "StaticFeedback.summary is ''; use a text that is not blank"),
        ({"summary": " \n"}, "StaticFeedback.summary is ' \\n'; use a text that is not blank"),
        ({"summary": None}, "StaticFeedback.summary is None; use a text that is not blank"),
        ({"severity": "fatal"}, "StaticFeedback.severity is 'fatal'; use one of info, caution, warning"),
    ],
)
def test_a_reminder_that_no_agent_could_get_is_refused(fields: dict[str, Any], reason: str) -> None:
    """Without words the worker counted a failure each time, and after three it was disabled: nothing ever came."""
    given: dict[str, Any] = {"summary": "x"} | fields
    with pytest.raises(InvalidInput, match=re.escape(reason)):
        StaticFeedback(**given)


def test_annotations_that_only_a_worker_may_resolve_are_no_fault_of_the_host() -> None:
    elsewhere: Any = make_dataclass("Elsewhere", [("n", "NoSuchName")], bases=(Plain,))
    spec = provider_spec(config(elsewhere(3)))
    assert (spec.name, spec.fields) == ("Elsewhere", {"n": 3})


def test_a_custom_provider_replaces_the_built_in_one_of_its_name() -> None:
    registry = ProviderRegistry([ToolUsageMonitor])
    provider = registry.build(provider_spec(config(ToolUsageMonitor(7))))
    assert provider.provide(context=CONTEXT).summary == "custom 7"
    assert registry.is_custom("ToolUsageMonitor")
    assert not registry.is_custom("DeadlineFeedback")


def test_only_the_built_in_provider_of_findings_that_was_built_waits_for_one() -> None:
    spec = provider_spec(config(StuckFeedback()))
    registry = ProviderRegistry()
    assert not registry.awaits_finding(spec)  # it may have fields that don't fit, which has to be said
    registry.build(spec)
    assert registry.awaits_finding(spec)
    assert not registry.awaits_finding(provider_spec(config(StuckFeedback(("same_call",)))))
    own = ProviderRegistry([type("StuckFeedback", (StuckFeedback,), {})])
    own.build(spec := ProviderSpec(name="StuckFeedback", trigger=TRIGGER))
    assert not own.awaits_finding(spec)


def test_a_class_without_fields_may_be_no_dataclass() -> None:
    assert isinstance(ProviderRegistry([Plain]).build(provider_spec(config(Plain()))), Plain)


def test_two_custom_providers_of_one_name_are_refused() -> None:
    other = type("Plain", (Plain,), {})
    with pytest.raises(ConfigurationError, match="two feedback providers are named Plain"):
        ProviderRegistry([Plain, other])


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("Nobody", {}, "no provider Nobody on this worker; it has BudgetFeedback, ContextChangeFeedback, "),
        ("DeadlineFeedback", {"warning_threshold_seconds": "soon"}, "cannot be made from these fields"),
        ("DeadlineFeedback", {"threshold": 1}, "has no field threshold"),
        ("StaticFeedback", {}, "missing required field"),
        ("StaticFeedback", {"summary": "x", "severity": "fatal"}, "Invalid enum value 'fatal'"),
    ],
)
def test_fields_are_checked_by_schema_on_the_worker(name: str, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProviderFailure, match=reason):
        ProviderRegistry().build(ProviderSpec(name=name, trigger=TRIGGER, fields=fields))


def test_the_setting_names_classes() -> None:
    assert load_registry("tellback.guidance.builtin_providers:ToolUsageMonitor, ").is_custom("ToolUsageMonitor")


def test_entry_points_of_packages_are_found_and_a_broken_one_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "class Theirs:\n    name = 'Theirs'\n"
        "    def should_run(self, *, context): return True\n"
        "    def provide(self, *, context): return None\n"
        "instance = Theirs()\n"
    )
    entry_points = (
        "gone = no_such_module:X\nnothing = their_feedback:Nobody\n"
        "object = their_feedback:instance\ntheirs = their_feedback:Theirs"
    )
    _package(tmp_path, "their_feedback", source, entry_points)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    registry = load_registry("")
    assert registry.is_custom("Theirs")
    assert type(registry.build(ProviderSpec(name="Theirs", trigger=TRIGGER))).__name__ == "Theirs"
    assert "DeadlineFeedback" in registry.names


def _package(folder: Path, name: str, source: str, entry_points: str) -> None:
    """Write a package as pip leaves an installed one."""
    (folder / f"{name}.py").write_text(source)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[tellback.providers]\n{entry_points}\n")


def test_a_package_that_ends_the_program_when_it_is_imported_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _package(tmp_path, "ends_at_import", "raise SystemExit(3)\n", "ends = ends_at_import:X")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert "DeadlineFeedback" in load_registry("").names
    with pytest.raises(ConfigurationError, match="TELLBACK_PROVIDERS: ends_at_import:X cannot be imported"):
        load_registry("ends_at_import:X")


@pytest.mark.parametrize(
    "path", ["no.such.module:X", "tellback.guidance.builtin_providers:Nobody", "json:dumps", "json"]
)
def test_a_setting_that_cannot_be_used_is_said_so(path: str) -> None:
    with pytest.raises(ConfigurationError, match="TELLBACK_PROVIDERS"):
        load_registry(path)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        {"summary": "x"},
        UNTYPED("X", 5),
        UNTYPED("X", "x", suggestions="abc"),
        UNTYPED("X", "x", severity="fatal"),
        Feedback("X", "\ud800"),
        Feedback("X", " \n"),
        UNTYPED("X", b"bytes"),
        UNTYPED(b"X", "x"),
        UNTYPED("X", "x", observations=({"label": "a", "value": "b"},)),
        UNTYPED("X", "x", observations=(Observation("a", cast("Any", 5)),)),
        UNTYPED("X", "x", suggestions=(b"y",)),
        UNTYPED("X", "x", severity=[]),
    ],
)
def test_nonsense_is_a_failure(answer: Any) -> None:
    provider = Plain()
    provider.answer = answer
    with pytest.raises(ProviderFailure, match="returned"):
        invoke_provider(provider, CONTEXT)


def test_lists_will_do_for_tuples() -> None:
    provider = Plain()
    provider.answer = UNTYPED("X", "x", [Observation("a", "b")], ["y"])
    assert invoke_provider(provider, CONTEXT) == Feedback("X", "x", (Observation("a", "b"),), ("y",))


def test_an_answer_is_bounded() -> None:
    provider = Plain()
    provider.answer = Feedback("X", "x" * 10**6, suggestions=("y" * 10**5,) * 1000)
    feedback = invoke_provider(provider, CONTEXT)
    assert feedback is not None
    assert len(feedback.summary) == SUMMARY_MAX
    assert len(feedback.suggestions) == ITEMS_MAX
