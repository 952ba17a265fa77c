"""The list of all checks, in the order in which the doctor prints them.

Checks that need Redis are skipped once it fails; those of this host always run, since a person needs them most then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from redis.exceptions import ResponseError

from tellback.connection_file import NAME, RunningSystem, find_running
from tellback.doctor import backlog, infrastructure, servers
from tellback.doctor.infrastructure import DoctorFinding, note, ok, wrong
from tellback.errors import InvalidInput, Unavailable
from tellback.names import MAX_SHARDS
from tellback.settings import PREFIX, Settings
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.database import Database, WrongType
from tellback.state.embeddings import Encoders
from tellback.state.fleet import place_of
from tellback.state.keys import FLEET, Layout
from tellback.state.presence import Presence
from tellback.state.quarantine import ReadingDatabase
from tellback.state.team import stored_layout
from tellback.state.teams import Teams
from tellback.state.unavailable import NotPermitted, unavailable_text
from tellback.wording import count_phrase

_SHOWN: Final = 5  # other teams that a finding names

_OWN_KEY_AWAY: Final = (
    "this node has the number of the team's shards: until it answers, workers that started since it went serve none of "
    "them"
)


def run_checks(settings: Settings, *, url_given: bool) -> list[DoctorFinding]:
    """Return the findings. Writes nothing, and raises nothing if parts of the system are down."""
    running = find_running(settings.data_path)
    redis = infrastructure.check_reachable(settings.redis_url, _url_source(settings, running, url_given=url_given))
    findings = [redis]
    if redis.state == "ok":
        try:
            findings.extend(_checks_with_redis(settings))
        except NotPermitted as error:  # the remaining checks would fail too
            findings.append(
                wrong("redis", str(error), "connect as a user who may read this team's keys, or `operator`")
            )
        except Unavailable as error:
            findings.append(wrong("redis", str(error), "the connection was lost during the checks: try again"))
        except ResponseError as error:
            if all(finding.check != "keys" for finding in findings):
                keys = " or ".join(error.keys) if isinstance(error, WrongType) else "a key"
                findings.append(wrong("keys", f"{keys} cannot be read: {error}", backlog.CHANGED_BY_HAND))
    return [
        *findings,
        infrastructure.check_flower(running),
        infrastructure.check_model(settings),
        infrastructure.check_spool(settings),
        infrastructure.check_data_dir(settings),
        infrastructure.check_variables(),
    ]


def _url_source(settings: Settings, running: RunningSystem | None, *, url_given: bool) -> str:
    if url_given:
        return "from --redis-url"
    if os.environ.get(f"{PREFIX}REDIS_URL"):
        return f"from {PREFIX}REDIS_URL"
    if running is not None and running.redis_url == settings.redis_url:
        return f"from the running `tellback up`, process id {running.pid}"
    with contextlib.suppress(OSError):
        file = settings.data_path / NAME
        if file.stat().st_uid != os.geteuid():
            return f"the default address, since {file} is another user's"
    return "the default address; you have no `tellback up` running on this host"


def _checks_with_redis(settings: Settings) -> Iterator[DoctorFinding]:
    database = ReadingDatabase(settings.redis_url, breaker=CircuitBreaker())
    with contextlib.closing(database):
        yield from _check_nodes(database)
        yield from servers.check_servers(database, settings)
        layout, team = _find_team(database, settings)
        yield team
        if layout is None:  # of a team that does not exist, all would be found missing
            return
        yield from (keys := list(backlog.check_keys(database, layout)))
        presence, now_ms = Presence(database, layout.team), database.now_ms()
        alive = presence.workers()
        if place_of(FLEET) in database.away:  # none would seem to run
            raise database.away[place_of(FLEET)]
        yield infrastructure.check_workers(presence, now_ms)
        yield infrastructure.check_rejected_messages(alive)
        yield infrastructure.check_versions(alive, version("tellback"))
        yield from infrastructure.check_policies(alive)
        yield from infrastructure.check_model_copies(alive)
        yield from infrastructure.check_preloads(alive)
        for state in Encoders(database, layout).all():
            yield infrastructure.check_loaded_model(state, now_ms)
        yield infrastructure.check_beat(presence, settings, now_ms)
        yield from backlog.check_intake(database, layout, settings, alive)
        yield backlog.check_queues(settings.broker, alive)
        yield backlog.check_sweep(database, layout, settings)
        yield backlog.check_running(database, layout)
        yield backlog.check_outbox(database, layout)
        yield backlog.check_dead_letters(database, layout)
        for key in {} if keys else database.wrong:
            yield wrong("keys", f"{key} cannot be read: it holds another type", backlog.CHANGED_BY_HAND)
        for line in database.unread_shards():
            yield wrong("shards", f"not examined: {line}", "the findings above are those of the other shards")
        yield from backlog.check_other_shards(database, layout)  # last: of a node that is away it would name all shards


def _not_found(settings: Settings) -> str:
    """Return what to do about a team of which a host has only appended to a stream."""
    return (
        f"`tellback teams create {settings.team}`: workers serve it within seconds, unless their TELLBACK_TEAMS leaves "
        "it out; otherwise they find it by a slow walk over the keys"
    )


def _check_nodes(database: Database) -> Iterator[DoctorFinding]:
    """Check that each node of a cluster answers; the checks that follow leave out what one holds that does not."""
    for error, is_primary in [] if database.cluster is None else database.cluster.unanswered_pings():
        found = unavailable_text(error, database.url)
        if is_primary:
            yield wrong("nodes", found, "what it holds is not served meanwhile")
        else:
            yield note("nodes", found, "it is not a primary: start it, or remove it from the URL")


def _find_team(database: Database, settings: Settings) -> tuple[Layout | None, DoctorFinding]:
    """Return the team's layout and a finding; unlike a client, don't create the team. None: others exist, not this."""
    unknown = Layout(settings.team, settings.shards)
    served = {team for worker in Presence(database, settings.team).all_workers() for team in worker.teams}
    known = set(served)
    with contextlib.suppress(NotPermitted):  # an agent's user sees one team
        known.update(Teams(database).names())
    others = sorted(known - {settings.team})
    named = ", ".join([*others[:_SHOWN], *(["..."] if others[_SHOWN:] else [])])
    try:
        layout = stored_layout(database, settings.team)
    except InvalidInput as error:
        key = unknown.shard(0).key("team")
        return unknown, wrong("team", str(error), f"workers leave the team out: restore the field `shards` of {key}")
    except Unavailable as error:
        if type(error) is not Unavailable or database.cluster is None:
            raise
        return None, wrong("team", f"{settings.team} is not examined: {error}", _OWN_KEY_AWAY)
    if layout is not None:
        examined = f"{settings.team}, {count_phrase(layout.shards, 'shard')}"
        return layout, ok("team", f"{examined}; not examined: {named}" if others else examined)
    if others and settings.team not in served:
        if there := backlog.streams_there(database, Layout(settings.team, MAX_SHARDS).all):
            return None, wrong(
                "team", f"no worker has found {settings.team}, which has {there[0]}", _not_found(settings)
            )
        return None, wrong("team", f"there is no team {settings.team}; others: {named}", "name one with --team")
    return unknown, note("team", f"{settings.team}: not used yet", "the first client or worker creates it")
