"""The Celery commands of the system's processes, for `tellback up`; a test finds the same in docker-compose.yml.

Three kinds of worker, since each would otherwise delay another: a long command must not hold up the answer to a user,
and the embedding model is held once, by the threads of one process.
"""

from __future__ import annotations

from typing import Final

from tellback.names import SWEEPS_QUEUE, Family, host_queue

LOOPS_QUEUES: Final = (Family.EVENTS.value, Family.TURNS.value, SWEEPS_QUEUE)
MODEL_QUEUES: Final = (Family.SIGNALS.value, Family.RECALLS.value)
LOOPS_CONCURRENCY: Final = 2
COMMANDS_CONCURRENCY: Final = 4  # a pool child mostly waits for its command
MODEL_CONCURRENCY: Final = 4
FLOWER_MAX_TASKS: Final = 10_000  # bounds Flower's memory

Argv = tuple[str, ...]


def loops_worker(node: str) -> Argv:
    """Guidance, turns and sweeps: short tasks."""
    return _worker(node, LOOPS_QUEUES, LOOPS_CONCURRENCY)


def commands_worker(node: str, host: str) -> Argv:
    """Commands, and those that must run on this host: tasks that wait."""
    return _worker(node, (Family.COMMANDS.value, host_queue(host)), COMMANDS_CONCURRENCY)


def model_worker(node: str) -> Argv:
    """Signals and recalls, on threads that share one copy of the model."""
    return _worker(node, MODEL_QUEUES, MODEL_CONCURRENCY, "--pool=threads")


def beat(schedule: str) -> Argv:
    """The schedule; `schedule` is the file that remembers its last runs."""
    return ("celery", "-A", "tellback_beat.app", "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=WARNING")


def flower(address: str, port: int) -> Argv:
    """Flower, whose password stands in its environment and never here."""
    return (
        "celery",
        "-A",
        "tellback_workers.app",
        "flower",
        f"--address={address}",
        f"--port={port}",
        f"--max-tasks={FLOWER_MAX_TASKS}",
    )


def _worker(node: str, queues: tuple[str, ...], concurrency: int, *more: str) -> Argv:
    return (
        "celery",
        "-A",
        "tellback_workers.app",
        "worker",
        "-E",
        f"--hostname={node}",
        f"--queues={','.join(queues)}",
        f"--concurrency={concurrency}",
        *more,
        "--without-gossip",
        "--without-mingle",  # nothing here is shared between workers, and it costs a second at start
        "--loglevel=INFO",
    )
