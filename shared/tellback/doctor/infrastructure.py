"""Findings, and the checks of this host, and of the workers, beat and Flower.

The model's check hashes the weights and loads neither torch nor the model, which would take seconds.
"""

from __future__ import annotations

import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import msgspec
from redis.exceptions import NoPermissionError

from tellback.connection_file import RunningSystem
from tellback.embedding.weights import ModelSource, check_fingerprint, find_source
from tellback.errors import ConfigurationError
from tellback.messaging import spool_file
from tellback.messaging.spool import spool_sizes
from tellback.messaging.team_cache import SPOOL, SUFFIX
from tellback.names import Family
from tellback.settings import Settings
from tellback.signals.models import PACKAGE, PACKAGED
from tellback.state.embeddings import EncoderState
from tellback.state.presence import MODEL_ADVICE, MODEL_MB, Presence, Worker
from tellback.unknown_variables import unknown_variables
from tellback.up.health import check_redis, flower_is_healthy
from tellback.urls import without_secrets
from tellback.wording import be, count_phrase

FindingState = Literal["ok", "note", "wrong"]


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check, with advice unless it is `ok`. `note`: worth knowing; `wrong`: something is broken."""

    check: str
    state: FindingState
    found: str
    advice: str = ""


def ok(check: str, found: str) -> DoctorFinding:
    """Return a finding that all is well."""
    return DoctorFinding(check=check, state="ok", found=found)


def note(check: str, found: str, advice: str) -> DoctorFinding:
    """Return a finding that is worth knowing."""
    return DoctorFinding(check=check, state="note", found=found, advice=advice)


def wrong(check: str, found: str, advice: str) -> DoctorFinding:
    """Return a finding that something is broken, or soon will be."""
    return DoctorFinding(check=check, state="wrong", found=found, advice=advice)


def not_permitted(check: str) -> DoctorFinding:
    """Return a finding that this login, as an agent's, may not ask for what the check needs."""
    return note(check, "not checked: this login may not read it", "connect as the user `operator`")


def check_reachable(url: str, source: str) -> DoctorFinding:
    """Check that Redis answers and is new enough; `source` says where its URL comes from."""
    try:
        release = check_redis(url)
    except ConfigurationError as error:
        if isinstance(error.__cause__, NoPermissionError):  # of an agent's login; `check_servers` says more
            return ok("redis", f"answers at {without_secrets(url)} ({source}), and keeps its version from this user")
        parts = re.fullmatch(r"(.+)\. ([A-Z][a-z].+)", str(error))  # the last sentence is the next step, if it has two
        found, advice = (
            parts.groups() if parts else (error, "correct TELLBACK_REDIS_URL, or start a Redis with `tellback up`")
        )
        return wrong("redis", f"{found} ({source})", advice)
    return ok("redis", f"{release} at {without_secrets(url)} ({source})")


_NEARLY_FULL: Final = 0.8  # of the spool's cap
_FULL_DISK: Final = 1 << 20  # bytes; a disk with less than this is full


def check_model(settings: Settings) -> DoctorFinding:
    """Check that the embedding model is installed and its weights are intact."""
    source = ModelSource.from_setting(settings)
    if source.name == PACKAGED and find_spec(PACKAGE) is None:
        if find_spec("celery") is None:
            return ok("model", "not installed; only hosts with workers need it")
        return wrong("model", "not installed", "pip install 'tellback[workers]'; until then, signals wait")
    try:
        folder = find_source(source)
        if folder is not None:
            check_fingerprint(source, folder)
    except (ConfigurationError, OSError) as error:
        return wrong("model", str(error), "until it is fixed, signals wait and recalls use global scores")
    if source.name == PACKAGED:
        return ok("model", f"{PACKAGED}, checksum verified")
    return ok("model", settings.model if folder else f"{source.name} of the hub at {source.revision}")


def check_spool(settings: Settings) -> DoctorFinding:
    """Check the spool for events not sent yet, and for those that can't be sent."""
    folder, most = settings.data_path / SPOOL / settings.team, settings.spool_max_bytes
    if _foreign_directory(settings.data_path):
        return note("spool", "not checked", "see `data directory` below")
    used = sum(spool_sizes(str(folder)))
    found = f"{used} of {most} bytes in {folder}"
    if used > most * _NEARLY_FULL:
        return wrong(
            "spool", found, "restore Redis, or raise TELLBACK_SPOOL_MAX_BYTES; a full spool rejects new events"
        )
    if paths := sorted(folder.rglob(spool_file.NAME)):
        where = ", ".join(map(str, paths))
        events = sum(map(_lines, paths))
        quarantined = f"{count_phrase(events, 'event')} that can't be sent {be(events)} in {where}"
        return note(
            "spool", f"{found}; {quarantined}", "each line begins with a time and reason; review and delete the file"
        )
    if used:
        unreached = "; those in url-* are for addresses never reached: delete the folder of a mistyped one"
        advice = "the next client on this host sends these events once Redis accepts them"
        return note("spool", found, advice + unreached * any(folder.glob(f"url-*/*/*{SUFFIX}")))
    return ok("spool", "empty")


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def check_variables() -> DoctorFinding:
    """Check for variables of this process that look like settings and that nothing reads."""
    unknown = unknown_variables()
    if not unknown:
        return ok("variables", "no unknown TELLBACK_ variable is set")
    return note("variables", "; ".join(map(str, unknown)), "correct the name, or unset it: it has no effect")


def _foreign_directory(folder: Path) -> str:
    """Return the data directory, or one of its spool, if it belongs to another user and this one may not use it."""
    try:
        places = [str(folder), *(place for place, _, _ in os.walk(folder / SPOOL, onerror=_raise))]
        foreign = [place for place in places if Path(place).stat().st_uid != os.geteuid()]
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except PermissionError as error:
        return str(error.filename)
    return next((place for place in foreign if not os.access(place, os.R_OK | os.W_OK | os.X_OK)), "")


def _raise(error: OSError) -> None:
    if isinstance(error, PermissionError):
        raise error


def check_data_dir(settings: Settings) -> DoctorFinding:
    """Check that this user can write the spool's directory."""
    folder = settings.data_path
    if path := _foreign_directory(folder):
        advice = "give each user a data directory, by TELLBACK_DATA_DIR, or events of this user can't be spooled"
        return wrong("data directory", f"{path} is another user's", advice)
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return wrong("data directory", f"{folder} is not writable", "set TELLBACK_DATA_DIR, or events can't be spooled")
    if shutil.disk_usage(existing).free < _FULL_DISK:
        return wrong(
            "data directory",
            f"the disk of {folder} is full",
            "free space, or events can't be spooled while Redis is away",
        )
    return ok("data directory", str(folder))


_MISSED_SWEEPS: Final = 5  # beat periods without a task, after which beat counts as stopped

_OTHERS_MODEL: Final = (
    "signals of such a bank become dead letters after TELLBACK_MODEL_WAIT seconds without a worker that has its model: "
    "start one, and stop workers whose model no bank uses"
)

_FORGOTTEN_SECONDS: Final = 300.0  # a worker that needs a model and has none repeats its report twice a minute

_SERVE_TEAM: Final = "name this team in their TELLBACK_TEAMS too, or examine one of theirs with --team"

_START_WORKERS: Final = "start them with `tellback up`, or `celery -A tellback_workers.app worker -E`"


def check_workers(presence: Presence, now_ms: int) -> DoctorFinding:
    """Check which workers take tasks, and which stopped sending heartbeats."""
    alive, silent = presence.workers(), presence.expired_workers()
    found = ", ".join(f"{worker.name} (pid {worker.pid}: {' '.join(worker.queues)})" for worker in alive)
    if not alive:
        others = [f"{worker.name} serves {' '.join(worker.teams)}" for worker in presence.all_workers()]
        found = f"none{' serves this team' if others else ''}{_silent_workers_text(silent, now_ms)}"
        advice = _SERVE_TEAM if others else _START_WORKERS
        return wrong("workers", "; ".join([found, *others[:10]]), advice)
    if silent:
        return note(
            "workers", f"{found}{_silent_workers_text(silent, now_ms)}", "check the log of the worker that went silent"
        )
    return ok("workers", found)


def _silent_workers_text(silent: dict[str, int], now_ms: int) -> str:
    return "".join(f"; {name} went silent {(now_ms - at) / 1000:.0f} s ago" for name, at in silent.items())


def check_rejected_messages(alive: list[Worker]) -> DoctorFinding:
    """Check whether workers have rejected messages from the broker since they started."""
    found = ", ".join(f"{worker.name} {worker.rejected}" for worker in alive if worker.rejected)
    if not found:
        return ok("rejected messages", "none")
    advice = (
        "something else writes to the broker: see `broker.rejected` in the worker's log, and restrict who can reach it"
    )
    return wrong("rejected messages", found, advice)


def check_versions(alive: list[Worker], own: str) -> DoctorFinding:
    """Check that workers run the same release as this command."""
    others = {f"{worker.name} runs {worker.version}" for worker in alive if worker.version != own}
    if others:
        advice = "upgrade workers before hosts: an older worker turns messages that it doesn't know into dead letters"
        return note("versions", f"{own} here; {', '.join(sorted(others))}", advice)
    return ok("versions", own)


def check_policies(alive: list[Worker]) -> list[DoctorFinding]:
    """Return the policy for commands that each worker has loaded."""
    taking = [worker for worker in alive if worker.policy and any(_takes_commands(name) for name in worker.queues)]
    return [_check_policy(worker) for worker in taking]


def _check_policy(worker: Worker) -> DoctorFinding:
    check = f"policy of {worker.name}"
    if "by looking at processes" in worker.policy:
        advice = "delegate a control group to it (systemd: Delegate=yes), or set TELLBACK_COMMAND_CGROUP"
        return note(check, worker.policy, f"limits apply with a delay of some ms; {advice}")
    return ok(check, worker.policy)


def _takes_commands(queue: str) -> bool:
    return queue.partition(".")[0] == Family.COMMANDS


def check_beat(presence: Presence, settings: Settings, now_ms: int) -> DoctorFinding:
    """Check that a worker recently ran a task that beat sends."""
    last = presence.last_beat()
    advice = "start beat (`tellback up`, or `celery -A tellback_beat.app beat`) and a worker of the queue `sweeps`"
    if last is None:
        return wrong("beat", "no task from beat in the last hour", advice)
    seconds = (now_ms - last) / 1000
    if seconds > settings.beat_period * _MISSED_SWEEPS:
        return wrong("beat", f"last task {seconds:.0f} s ago", advice)
    return ok("beat", f"last task {max(seconds, 0.0):.1f} s ago")


def check_model_copies(alive: list[Worker]) -> list[DoctorFinding]:
    """Return the workers whose pool may load several copies of the embedding model."""
    return [
        note(
            f"copies of the model in {worker.name}",
            f"{worker.model_copies}, one in each process of its pool: {worker.model_copies * MODEL_MB} MB in total",
            MODEL_ADVICE,
        )
        for worker in alive
        if worker.model_copies > 1
    ]


def check_preloads(alive: list[Worker]) -> list[DoctorFinding]:
    """Return the workers whose model did not load at their start and has not since: no signal may have asked for it."""
    return [
        wrong(
            f"model in {worker.name}",
            "did not load when the worker started (TELLBACK_MODEL_PRELOAD); its log says why",
            "fix the model, then restart the worker; without a restart, the next signal or recall tries again",
        )
        for worker in alive
        if worker.preload == "failed"
    ]


def check_loaded_model(state: EncoderState, now_ms: int) -> DoctorFinding:
    """Check the model that a worker host reported; a host reports once it needs its model."""
    check = f"model of {state.host}"
    seconds = max(0, now_ms - state.at) / 1000
    if state.mismatch and seconds < _FORGOTTEN_SECONDS:
        return note(check, f"{state.model}, loaded; {state.mismatch} (reported {seconds:.0f} s ago)", _OTHERS_MODEL)
    if state.state == "loaded":
        return ok(check, f"{state.model}, loaded")
    found = f"{state.model}: {state.reason} (reported {seconds:.0f} s ago)"
    if seconds > _FORGOTTEN_SECONDS:
        return note(check, found, "the model has not been needed since; no signal is lost, they wait in their stream")
    return wrong(check, found, "fix the model; no restart is needed, signals wait in their stream and none is lost")


def check_flower(running: RunningSystem | None) -> DoctorFinding:
    """Check Flower, if a `tellback up` of this user started one on this host."""
    if running is None:
        return ok("flower", "not checked: you have no `tellback up` running on this host")
    if running.flower_url is None:
        return ok("flower", "not started")
    shown = without_secrets(running.flower_url)
    if not flower_is_healthy(running.flower_url):
        return wrong("flower", f"{shown} does not respond", f"check {running.data_dir}/logs/flower.log")
    return ok("flower", shown)
