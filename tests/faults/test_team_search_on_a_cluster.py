"""A worker searches the keys of a Redis Cluster for teams of which nobody notified, while a primary is dead."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tellback import Settings, clock
from tellback.names import Family
from tellback.state.fleet import TeamVisits
from tellback.state.intake import StreamRef
from tellback.state.keys import FLEET, Layout, stream_of
from tellback.state.slots import slot_of
from tellback.state.team import open_layout
from tellback_workers.app import app
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import TeamScheduler
from tests.support.redis_cluster import RedisCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults


def test_a_search_that_finds_a_team_whose_own_key_is_away_stops_no_visit(tmp_path: Path) -> None:
    """Each search found it again, and ended the run before its visits: others' fallbacks came a period later."""
    with RedisCluster(tmp_path / "cluster", "--cluster-require-full-coverage", "no") as cluster:
        assert cluster.owner(slot_of(FLEET.key("teams"))) is cluster.primaries[1]
        away, *more = islice(cluster.teams_on(cluster.primaries[2]), 20)
        here = next(cluster.teams_on(cluster.primaries[0]))
        runtime, woken = Runtime(Settings(redis_url=cluster.url, data_dir=str(tmp_path / "data"))), list[StreamRef]()
        layout = open_layout(runtime.database, here, 1)
        TeamVisits(runtime.database).notice([here])
        every = [*Layout(away, 32).all, *(shard for team in more for shard in Layout(team, 4).all)]
        shards = [one for one in every if cluster.owner(slot_of(one.prefix)) is not cluster.primaries[2]]
        for shard in (*shards, layout.shard(0)):
            runtime.database.command("XADD", stream_of(shard, Family.EVENTS), "*", "m", "{}")
        cluster.primaries[2].kill()
        scheduler = TeamScheduler(app, runtime, woken.extend)
        began = clock.monotonic()
        scheduler.run(0.0)
        assert clock.monotonic() - began < 5, "each stream and team waited for the node, a third of a second"
        assert woken == [(layout.shard(0), Family.EVENTS)]
        assert away not in TeamVisits(runtime.database).known()
        cluster.primaries[2].launch()
        cluster.wait_until_serving()

        def is_found() -> bool:
            scheduler._search._next_step = 0.0  # at once
            scheduler._search.step(())
            return away in TeamVisits(runtime.database).known()

        wait_until(is_found, "it is looked for again")
