"""The modules that one tool call really runs, against what the architecture page says of its journey."""

from __future__ import annotations

import re
from typing import Final

from tellback import FeedbackProviderConfig, FeedbackTrigger, Tellback, ToolUsageMonitor
from tellback.names import Family
from tellback.settings import Settings
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tests.support.journeys import PAGE, calls_watched

MOST_MODULES: Final = 52
JOURNEY: Final = PAGE.partition("### A tool call to its feedback\n")[2].partition("\n### ")[0]


def module_of(path: str) -> str:
    """The name of one of our modules, or ""."""
    found = re.search(r"/(?:shared|workers)/(tellback\w*/[\w/]+)\.py$", path.replace("\\", "/"))
    return found[1].replace("/", ".").removesuffix(".__init__") if found else ""


def test_a_tool_call_runs_the_modules_that_the_page_names(tb: Tellback, settings: Settings) -> None:
    """The steps and the table below them name them; what is loaded or connected once is not counted."""
    runtime = Runtime(settings)
    monitor = FeedbackProviderConfig(ToolUsageMonitor(max_calls_without_progress=1), FeedbackTrigger(every_n_calls=1))

    def give_feedback(query: str) -> int:
        result = "src/shop.py:12: def checkout(cart):"
        prompt.tool_invoked("grep", params={"pattern": query}, status="success", result=result)
        tb.context.publisher.flush()  # by its publisher, as `Prompt.feedback` has it sent
        for shard in runtime.layout(settings.team).all:
            consumer_of(runtime, settings.team, Family.EVENTS).consume(shard, Family.EVENTS)
        return len(prompt.feedback(wait=60))

    paths: set[str] = set()
    with calls_watched(lambda code: paths.add(code.co_filename)):
        prompt = tb.prompt("path", "p", feedback_providers=[monitor])
        assert give_feedback("def checkout") == 1
        paths.clear()
        assert give_feedback("checkout(") == 1
        ran = {name for path in paths.copy() if (name := module_of(path))}
    steps = {name for name, _ in re.findall(r"^\d+\. `([\w.]+):([\w.]+)`", JOURNEY, re.MULTILINE)}
    rows = re.findall(r"^\| [^|`]+ \| (`.+) \|$", JOURNEY, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    beside = {name if name.startswith("tellback_") else f"tellback.{name}" for name in named}
    assert not steps & beside
    assert ran - steps - beside == set(), "name it on the page, or do without it"
    assert beside - ran == set(), "the page names what a call does not run"
    said = re.search(r"The steps lead through (\d+) modules\. A call runs code of (\d+)", JOURNEY)
    assert said
    assert (int(said[1]), int(said[2])) == (len(steps), len(ran))
    assert len(ran) <= MOST_MODULES
