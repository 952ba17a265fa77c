"""The search for teams that no notification has named: a slow walk over the keys of Redis."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import structlog
from redis.exceptions import ResponseError

from tellback import clock
from tellback.errors import Unavailable
from tellback.state.fleet import TeamVisits
from tellback.state.keys import Layout
from tellback_workers.runtime import Runtime

SCAN_SECONDS: Final = 5.0  # between two steps of the search for teams that nobody notified of

SCAN_COUNT: Final = 2_000  # keys in a step: 0.9 ms of Redis and 1.2 ms of this process

KNOWN_SECONDS: Final = 60.0  # at most; then a team is looked for again: Redis may have lost it, and its hosts go on

_KEY: Final = re.compile(rb"tb:\{([a-z0-9-]{1,64})\.\d+\}:")

_logger = structlog.get_logger("tellback.scheduler")


class TeamSearch:
    """Finds teams that no notification has named: a slow walk over the keys.

    Their hosts use nothing but XADD, or Redis lost the notification in a failover.

    It is slow on purpose: such a team is found once, and from then on its streams are visited like all others.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._fleet = TeamVisits(runtime.database)
        self._next_step = 0.0
        self._known: frozenset[str] = frozenset()
        self._forget_at = 0.0

    def step(self, only: Collection[str]) -> None:
        """Look at some thousand keys more, unless that was done a moment ago.

        Raises:
            Unavailable: Redis is unavailable.
        """
        now = clock.monotonic()
        if now < self._next_step:
            return
        self._next_step = now + SCAN_SECONDS
        found = self._runtime.database.scan_step("tb:{*", SCAN_COUNT)
        named = {key: match[1].decode() for key in found if (match := _KEY.match(key))}
        if now >= self._forget_at:
            self._known, self._forget_at = frozenset(), now + KNOWN_SECONDS
        unseen = {name for name in named.values() if name not in self._known and (not only or name in only)}
        new = self._fleet.unknown(unseen)
        streams = [key for key, name in named.items() if name in new and b"}:in:" in key]
        types = self._runtime.database.pipeline([("TYPE", key) for key in streams])
        of_plain_xadd = {named[key] for key, kind in zip(streams, types, strict=True) if kind == b"stream"}
        # This process may still know one that was removed: it would store nothing, and the next visit forget the team.
        self._runtime.current_layouts(of_plain_xadd)
        unseen -= {team for team in of_plain_xadd if not self._fix_shards(team)}
        self._fleet.notice(self._runtime.known_layouts(new))
        self._known |= unseen

    def _fix_shards(self, team: str) -> bool:
        """Store the number of a team's shards; return False if its node is away, so that it is looked for again."""
        if not self._runtime.database.answering([Layout(team, 1).shard(0)]):  # each call would wait for it again
            return False
        try:
            self._runtime.layout(team)
        except Unavailable as error:  # of a cluster: the visits that follow need other nodes
            _logger.warning("team.postponed", team=team, reason=str(error))
            return False
        except (ResponseError, ValueError) as error:  # its key or number isn't ours: the others are found all the same
            _logger.error("team.unreadable", team=team, reason=str(error))  # noqa: TRY400 - its text says all
        return True
