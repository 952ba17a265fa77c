"""The list of all checks, in the order in which the doctor prints them.

Checks that need Redis are skipped once it fails; those of this host always run, since a person needs them most then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib.metadata import version

from redis.exceptions import ResponseError

from tellback.connection_file import NAME, RunningSystem, find_running
from tellback.doctor import backlog, infrastructure
from tellback.doctor.infrastructure import DoctorFinding, wrong
from tellback.errors import Unavailable
from tellback.settings import PREFIX, Settings
from tellback.state.database import Database, WrongType
from tellback.state.embeddings import Encoders
from tellback.state.presence import Presence
from tellback.state.unavailable import NotPermitted


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
    database = Database(settings.redis_url)
    broker = Database(settings.broker)
    with contextlib.closing(database), contextlib.closing(broker):
        yield from infrastructure.check_server(database)
        layout, team = infrastructure.open_team(database, settings)
        yield team
        yield from backlog.check_keys(database, layout)
        presence, now_ms = Presence(database, layout.team), database.now_ms()
        alive = presence.workers()
        yield infrastructure.check_workers(presence, now_ms)
        yield infrastructure.rejected(alive)
        yield infrastructure.check_versions(alive, version("tellback"))
        yield from infrastructure.check_policies(alive)
        yield from infrastructure.check_model_copies(alive)
        for state in Encoders(database, layout).all():
            yield infrastructure.check_loaded_model(state, now_ms)
        yield infrastructure.check_beat(presence, settings, now_ms)
        yield from backlog.check_intake(database, layout, settings, alive)
        yield backlog.check_queues(broker, alive)
        yield backlog.check_sweep(database, layout, settings)
        yield backlog.check_running(database, layout)
        yield backlog.check_outbox(database, layout)
        yield backlog.check_dead_letters(database, layout)
