"""Teams that are at their limits, beside another on the same host."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import msgspec

from tellback import Settings, Tellback, connect
from tellback.client.guidance import Prompt
from tellback.errors import SpoolFull
from tellback.names import Family
from tellback.state.keys import stream_of
from tellback.state.limits import LimitStore

LIMITS: dict[str, dict[str, float]] = {
    "fast": {"events_per_second": 0.1},
    "large": {"intake_bytes": 5_000},
    "still": {"suspended": True},
}


def limit(tb: Tellback, **values: float) -> None:
    LimitStore(tb.context.database, tb.context.layout).change(**values)


def call(tb: Tellback, prompt: Prompt) -> str:
    """Publish a call; return the error if the host can neither send nor keep it."""
    try:
        prompt.tool_invoked("search", result="x" * 300)
        tb.flush()
    except SpoolFull as full:
        return str(full)
    return ""


def test_teams_at_their_limits_cost_another_nothing(settings: Settings, tmp_path: Path) -> None:
    """A team that fills its spool is told of its limit, and not that Redis is away; the spool of another has room."""
    host = msgspec.structs.replace(settings, data_dir=str(tmp_path / "host"), shards=1, spool_max_bytes=20_000)
    with ExitStack() as stack:
        clients = {
            team: stack.enter_context(connect(settings=msgspec.structs.replace(host, team=team)))
            for team in (*LIMITS, "another")
        }
        prompts = {team: tb.prompt("s", "p") for team, tb in clients.items()}
        for team, values in LIMITS.items():
            limit(clients[team], **values)
        errors = dict.fromkeys(clients, "")
        for _ in range(100):
            for team, tb in clients.items():
                errors[team] = call(tb, prompts[team]) or errors[team]
        another = clients["another"]
        stream = stream_of(another.context.layout.shard(0), Family.EVENTS)
        assert another.context.database.command("XLEN", stream) == 101
        limit(another, suspended=True)
        errors["another"] = call(another, prompts["another"])
        assert another.spooled
        limit(another, suspended=False)
        another.flush()
        assert another.context.database.command("XLEN", stream) == 102
    for team, reason in (("fast", "more events than"), ("large", "its share of the bytes"), ("still", "resume")):
        assert reason in errors[team]
    assert errors["another"] == ""
