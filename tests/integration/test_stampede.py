"""A thousand agents meet one rate-limited tool: real host processes, real workers, no stampede onto one fallback.

Requirements G-65 and G-66: one health of a tool for a fleet.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from tellback import Tellback
from tellback.settings import Settings
from tellback.state.tool_health import ToolHealth
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, environment

AGENTS = 1_000
HOSTS = 4
TOOLS = ("search", "wiki", "news", "papers", "maps", "archive")
# A host with many agents. Each asks the same of the same tool, is refused, and follows the first suggestion.
HOST = """
import json, sys
from collections import Counter
from tellback import connect
host, refused = sys.argv[1:3]
agents, status, tools = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5].split(",")
first, sent_to = Counter(), Counter()
with connect() as tb:
    for n in range(agents):
        prompt = tb.prompt(f"agent-{host}-{n}", "p", tools=tools, question="Who made Ruby?")
        headers = {"Retry-After": "600"} if status == 429 else {}
        seen = prompt.observe(
            refused, params={"query": "Ruby creator"}, error="not now", http_status=status, headers=headers
        )
        others = [step.tool for step in seen.envelope.suggestions if step.kind == "alternative"]
        sent_to.update(others)
        first[others[0]] += 1
        prompt.observe(others[0], params={"query": "Ruby creator"}, result="Yukihiro Matsumoto made Ruby.")
print(json.dumps([first, sent_to]))
"""


def fleet(settings: Settings, refused: str, status: int, run: str) -> tuple[Counter[str], Counter[str]]:
    """Run the agents of all hosts; count the tools advised first, which they called, and all that were advised."""
    hosts = [
        subprocess.Popen(
            [sys.executable, "-c", HOST, f"{run}-{n}", refused, str(AGENTS // HOSTS), str(status), ",".join(TOOLS)],
            env=environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        for n in range(HOSTS)
    ]
    first, sent_to = Counter[str](), Counter[str]()
    for host in hosts:
        out, _ = host.communicate(timeout=60)
        assert host.returncode == 0
        one, all_ = json.loads(out)
        first.update(one)
        sent_to.update(all_)
    return first, sent_to


def spread(counts: Counter[str], among: int) -> float:
    """The largest share, in fair shares."""
    return max(counts.values()) / (counts.total() / among)


@pytest.mark.slow
def test_a_thousand_agents_spread_over_the_alternatives_and_leave_a_cooling_tool_alone(
    tb: Tellback, settings: Settings, start_workers: StartWorkers
) -> None:
    start_workers(2, queues="events")
    health = ToolHealth(tb.context.database, tb.context.layout)

    first, sent_to = fleet(settings, "search", 429, "a")
    assert first.total() == AGENTS
    assert first.keys() == sent_to.keys() == set(TOOLS) - {"search"}
    assert spread(first, among=5) <= 1.5
    assert spread(sent_to, among=5) <= 1.5

    wait_until(lambda: "search" in health.cooling(TOOLS), "the team knows that search is rate limited")
    first, sent_to = fleet(settings, "wiki", 503, "b")
    assert first.keys() == sent_to.keys() == set(TOOLS) - {"search", "wiki"}, (
        "nobody is sent to the tool that cools down"
    )
    assert spread(first, among=4) <= 1.5
    assert spread(sent_to, among=4) <= 1.5

    wait_until(lambda: "wiki" in health.cooling(TOOLS), "the team knows that wiki is away")
    lucky = tb.prompt("lucky", "p", tools=TOOLS, question="Who made Ruby?")
    lucky.observe("search", params={"query": "Ruby"}, result="Yukihiro Matsumoto made Ruby.")
    tb.flush()
    wait_until(lambda: "search" not in health.cooling(TOOLS), "an answer of search ends its cool-down")
    first, sent_to = fleet(settings, "wiki", 503, "c")
    assert sent_to["search"] > 0
    assert spread(first, among=5) <= 1.5
