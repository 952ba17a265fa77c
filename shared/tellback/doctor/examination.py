"""Everything that the doctor looks at, in order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib.metadata import version

from redis import exceptions

from tellback.connection_file import RunningSystem, find_running
from tellback.doctor import host, processes, server, work
from tellback.doctor.finding import Finding, wrong
from tellback.errors import Unavailable
from tellback.settings import PREFIX, Settings
from tellback.state.database import Database
from tellback.state.encoders import Encoders
from tellback.state.presence import Presence


def examine(settings: Settings, *, url_given: bool) -> list[Finding]:
    """What was found; nothing is written and nothing raised for a system that is down."""
    running = find_running(settings.data_path)
    redis = server.reachable(settings.redis_url, _source(settings, running, url_given=url_given))
    findings = [redis]
    if redis.state == "ok":
        try:
            findings.extend(_with_redis(settings))
        except Unavailable as error:
            findings.append(wrong("redis", str(error), "it went away during the examination: try again"))
        except exceptions.ResponseError as error:  # what is left cannot be asked either
            findings.append(wrong("redis", str(error), "ask as a user who may read this team's keys"))
    return [*findings, processes.flower(running), host.model(settings), host.spool(settings), host.data_dir(settings)]


def _source(settings: Settings, running: RunningSystem | None, *, url_given: bool) -> str:
    if url_given:
        return "as given"
    if os.environ.get(f"{PREFIX}REDIS_URL"):
        return f"from {PREFIX}REDIS_URL"
    if running is not None and running.redis_url == settings.redis_url:
        return f"of the `tellback up` with process id {running.pid}"
    return "the default address; no `tellback up` of this user runs here"


def _with_redis(settings: Settings) -> Iterator[Finding]:
    database = Database(settings.redis_url)
    broker = Database(settings.broker)
    with contextlib.closing(database), contextlib.closing(broker):
        yield from server.examine(database)
        layout, team = processes.team(database, settings)
        yield team
        presence, now_ms = Presence(database, layout), database.now_ms()
        alive = presence.workers()
        yield processes.workers(presence, now_ms)
        yield processes.versions(alive, version("tellback"))
        yield from processes.policies(alive)
        yield from processes.model_copies(alive)
        yield from processes.loaded_models(Encoders(database, layout).all(), now_ms)
        yield processes.beat(presence, settings, now_ms)
        yield from work.intake(database, layout, settings, alive)
        yield work.queues(broker, alive)
        yield work.sweep(database, layout, settings)
        yield work.outbox(database, layout)
        yield work.dead_letters(database, layout)
