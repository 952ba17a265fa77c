"""The tables of `tellback stats`."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tellback.cli.stats_report import TOP, print_guidance_report
from tellback.client.statistics import GuidanceStats
from tellback.guidance.summary import summarize


def test_a_provider_that_only_fails_is_shown_however_many_others_speak() -> None:
    counters = {f"provider:Busy{n}:fires": 1_000 for n in range(TOP + 5)}
    counters |= {"provider:Broken:failures": 3, "provider:Broken:disabled": 1}
    stats = GuidanceStats(team="t", session=None, since=0, until=1, summary=summarize(counters))
    out = StringIO()
    print_guidance_report(stats, Console(file=out, width=120))
    lines = out.getvalue().splitlines()
    title = next(n for n, line in enumerate(lines) if "Feedback providers" in line)
    assert "--json has 6 more" in lines[title]
    assert lines[title + 2].split() == ["Broken", "0", "0", "3", "0", "1"]
    assert sum("Busy" in line for line in lines) == TOP - 1
