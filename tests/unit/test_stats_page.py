"""The tables of `tellback stats`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tellback.cli.stats_report import TOP, print_guidance
from tellback.client.statistics import GuidanceStats
from tellback.guidance.measures import counter_name
from tellback.guidance.summary import summarize

COUNTERS = {
    "tool:search_the_web:calls": 1,
    "tool:search_the_web:errors": 1,
    "suggestion:different:offered": 1,
    "provider:Stuck:fires": 1,
    "delivery:same_call": 1,
}


Page = Callable[..., str]


@pytest.fixture
def page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Page:
    def printed(width: int, counters: Mapping[str, int] = COUNTERS) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        stats = GuidanceStats(team="t", session=None, since=0, until=1, summary=summarize(counters))
        print_guidance(stats, bars=False)
        return capsys.readouterr().out

    return printed


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_every_name_and_figure_is_read_in_a_terminal_of_any_width(page: Page, width: int) -> None:
    """A wider one has bars too; no line is wider than the terminal."""
    lines = page(width).splitlines()
    assert max(map(len, lines)) <= width
    shown = "".join("".join(lines).split())
    for text in ("search_the_web", "different", "Stuck", "calls", "failedagain", "disabled", "bytimealone"):
        assert text in shown, text
    assert ("▒" in shown) == (width >= 60)


@pytest.mark.parametrize("width", [30, 120])
def test_a_tool_named_like_a_section_of_ours_is_quoted(page: Page, width: int) -> None:
    """As in the other listings."""
    lines = [
        line.strip()
        for line in page(width, {counter_name("tool", "NEXT STEPS:", "calls"): 1, "tool:x:calls": 2}).splitlines()
    ]
    assert not [line for line in lines if line.startswith(("NEXT STEPS", "tool NEXT STEPS"))]
    assert [line for line in lines if "> NEXT STEPS" in line]


def test_one_of_a_thing_is_named_in_the_singular(page: Page) -> None:
    shown = " ".join(page(200).split())
    assert "1 tool call, 1 error (100%) · 1 suggestion, 0 taken" in shown


def test_a_provider_that_only_fails_is_shown_however_many_others_speak(page: Page) -> None:
    counters = {f"provider:Busy{n}:fires": 1_000 for n in range(TOP + 5)}
    counters |= {"provider:Broken:failures": 3, "provider:Broken:disabled": 1}
    lines = page(120, counters).splitlines()
    title = next(n for n, line in enumerate(lines) if "Feedback providers" in line)
    assert "--json has 6 more" in lines[title]
    assert lines[title + 2].split() == ["Broken", "0", "0", "3", "0", "1"]
    assert sum("Busy" in line for line in lines) == TOP - 1
