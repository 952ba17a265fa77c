"""Who is at work: workers, beat, Flower, and the model that workers have loaded."""

from __future__ import annotations

from typing import Final

from tellback.connection_file import RunningSystem
from tellback.doctor.finding import Finding, note, ok, wrong
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.encoders import EncoderState
from tellback.state.keys import Layout
from tellback.state.presence import MODEL_ADVICE, MODEL_MB, Presence, Worker
from tellback.up.answers import http_answers
from tellback.urls import without_secrets

_MISSED_SWEEPS: Final = 5
_OTHERS_MODEL: Final = (
    "signals of such a bank wait TELLBACK_MODEL_PATIENCE seconds for a worker that has its model, then they are dead "
    "letters: start one, and stop those that no bank needs"
)
_FORGOTTEN_SECONDS: Final = 300.0  # whoever has signals and no model says so twice a minute
_START_WORKERS: Final = "start some: `tellback up`, or `celery -A tellback_workers.app worker -E`"


def workers(presence: Presence, now_ms: int) -> Finding:
    """Who takes tasks, and who fell silent."""
    alive, silent = presence.workers(), presence.silent()
    found = ", ".join(f"{worker.name} (pid {worker.pid}: {' '.join(worker.queues)})" for worker in alive)
    if not alive:
        return wrong("workers", f"none{_fell_silent(silent, now_ms)}", _START_WORKERS)
    if silent:
        return note("workers", f"{found}{_fell_silent(silent, now_ms)}", "see the log of the one that fell silent")
    return ok("workers", found)


def _fell_silent(silent: dict[str, int], now_ms: int) -> str:
    return "".join(f"; {name} fell silent {(now_ms - at) / 1000:.0f} s ago" for name, at in silent.items())


def versions(alive: list[Worker], own: str) -> Finding:
    """Whether workers run the release of this command."""
    others = {f"{worker.name} runs {worker.version}" for worker in alive if worker.version != own}
    if others:
        advice = "a worker older than its hosts dead-letters messages that it does not know: upgrade it first"
        return note("versions", f"{own} here; {', '.join(sorted(others))}", advice)
    return ok("versions", own)


def policies(alive: list[Worker]) -> list[Finding]:
    """What commands may do where workers take them, as each worker has read it."""
    taking = [worker for worker in alive if worker.policy and any(_takes_commands(name) for name in worker.queues)]
    return [_policy(worker) for worker in taking]


def _policy(worker: Worker) -> Finding:
    check = f"policy of {worker.name}"
    if "by looking at processes" in worker.policy:
        advice = "have its control group delegated (systemd: Delegate=yes), or name one in TELLBACK_COMMAND_CGROUP"
        return note(check, worker.policy, f"limits hold with a delay of some ms; {advice}")
    return ok(check, worker.policy)


def _takes_commands(queue: str) -> bool:
    return queue.partition(".")[0] == Family.COMMANDS


def beat(presence: Presence, settings: Settings, now_ms: int) -> Finding:
    """Whether a worker lately did what beat sends."""
    last = presence.last_rung()
    advice = "start beat: `tellback up`, or `celery -A tellback_beat.app beat`; and a worker of the queue `sweeps`"
    if last is None:
        return wrong("beat", "not heard in the last hour", advice)
    seconds = (now_ms - last) / 1000
    if seconds > settings.beat_period * _MISSED_SWEEPS:
        return wrong("beat", f"last heard {seconds:.0f} s ago", advice)
    return ok("beat", f"heard {max(seconds, 0.0):.1f} s ago")


def model_copies(alive: list[Worker]) -> list[Finding]:
    """Workers that may come to hold several copies of the embedding model, by their pool."""
    return [
        note(
            f"copies of the model in {worker.name}",
            f"{worker.model_copies}, one in each process of its pool: {worker.model_copies * MODEL_MB} MB in all",
            MODEL_ADVICE,
        )
        for worker in alive
        if worker.model_copies > 1
    ]


def loaded_models(states: list[EncoderState], now_ms: int) -> list[Finding]:
    """What worker hosts said of their models, where one has been needed."""
    return [_loaded_model(state, now_ms) for state in states]


def _loaded_model(state: EncoderState, now_ms: int) -> Finding:
    check = f"model of {state.host}"
    seconds = max(0, now_ms - state.at) / 1000
    if state.refuses and seconds < _FORGOTTEN_SECONDS:
        return note(check, f"{state.model}, loaded; {state.refuses} (said {seconds:.0f} s ago)", _OTHERS_MODEL)
    if state.state == "loaded":
        return ok(check, f"{state.model}, loaded")
    found = f"{state.model}: {state.reason} (said {seconds:.0f} s ago)"
    if seconds > _FORGOTTEN_SECONDS:
        return note(check, found, "it has not been needed since; nothing was lost, signals wait in their stream")
    return wrong(check, found, "signals wait in their stream and none is lost; put it right, no restart is needed")


def flower(running: RunningSystem | None) -> Finding:
    """Flower, where a running `tellback up` on this host says where it is."""
    if running is None:
        return ok("flower", "not known: no `tellback up` of this user runs on this host")
    if running.flower_url is None:
        return ok("flower", "not started")
    shown = without_secrets(running.flower_url)
    if not http_answers(running.flower_url):
        return wrong("flower", f"{shown} does not answer", f"see {running.data_dir}/logs/flower.log")
    return ok("flower", shown)


def team(database: Database, settings: Settings) -> tuple[Layout, Finding]:
    """The team's layout, without creating the team."""
    stored = database.command("HGET", Layout(settings.team, 1).shard(0).key("team"), "shards")
    if stored is None:
        advice = "its first client or worker creates it"
        return Layout(settings.team, settings.shards), note("team", f"{settings.team}: not used yet", advice)
    layout = Layout(settings.team, int(stored))
    return layout, ok("team", f"{settings.team}, {layout.shards} shards")
