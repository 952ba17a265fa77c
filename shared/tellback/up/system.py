"""The plan of `tellback up`: the programs to run, their addresses, and the data directory that outlives a run.

There are three kinds of worker, so that none delays another: a long command must not hold up the answer to a user, and
the embedding model is loaded once, by the threads of one process. A test compares the commands here with those in
docker-compose.yml.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import sys
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from tellback.errors import ConfigurationError
from tellback.names import SWEEPS_QUEUE, Family, host_queue
from tellback.settings import PREFIX, Settings
from tellback.state.unavailable import START_REDIS
from tellback.up.child import ChildProgram
from tellback.up.health import check_redis
from tellback.up.redis_server import configuration, find_program

LOOPS_QUEUES: Final = (Family.EVENTS.value, Family.TURNS.value, SWEEPS_QUEUE)

MODEL_QUEUES: Final = (Family.SIGNALS.value, Family.RECALLS.value)

LOOPS_CONCURRENCY: Final = 2

COMMANDS_CONCURRENCY: Final = 4  # a pool child mostly waits for its command

MODEL_CONCURRENCY: Final = 4

FLOWER_MAX_TASKS: Final = 10_000  # bounds Flower's memory

Argv = tuple[str, ...]


def loops_worker(node: str) -> Argv:
    """Return the command of a worker for guidance, turns and sweeps, whose tasks are short."""
    return _worker(node, LOOPS_QUEUES, LOOPS_CONCURRENCY)


def commands_worker(node: str, host: str) -> Argv:
    """Return the command of a worker for commands, including those bound to this host; its tasks mostly wait."""
    return _worker(node, (Family.COMMANDS.value, host_queue(host)), COMMANDS_CONCURRENCY)


def model_worker(node: str) -> Argv:
    """Return the command of a worker for signals and recalls, on threads that share one copy of the model."""
    return _worker(node, MODEL_QUEUES, MODEL_CONCURRENCY, "--pool=threads")


def beat(schedule: str) -> Argv:
    """Return the command of beat; `schedule` is the file in which it keeps the times of its last runs."""
    return ("celery", "-A", "tellback_beat.app", "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=WARNING")


def flower(address: str, port: int) -> Argv:
    """Return the command of Flower; its password is in the environment, since arguments show in `ps`."""
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
        "--without-mingle",  # workers share no state to synchronise, and it costs a second at start
        "--loglevel=INFO",
    )


class DataDir:
    """The data directory, locked by this process until it ends."""

    def __init__(self, path: Path) -> None:
        """Create the directory if needed, and lock it.

        Raises:
            ConfigurationError: it isn't writable, or another `tellback up` uses it.
        """
        self.path = path.absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (self.redis, self.logs, self.beat):
                folder.mkdir(exist_ok=True, mode=0o700)
                folder.chmod(0o700)
            self._lock = os.open(self.path / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"can't write the data directory {path}: {error.strerror}; choose another with --data-dir"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise ConfigurationError(
                f"another `tellback up` uses the data directory {path}; choose another with --data-dir"
            ) from error

    @property
    def redis(self) -> Path:
        """The directory of Redis' append-only file."""
        return self.path / "redis"

    @property
    def logs(self) -> Path:
        """The directory of logs, one file per process."""
        return self.path / "logs"

    @property
    def beat(self) -> Path:
        """The directory of beat's schedule, which is a pickle: whoever can write to it can run code as this user."""
        return self.path / "beat"

    def secret(self, name: str) -> str:
        """Return the password of this name: 32 random bytes in hex, generated once, readable only by this user.

        Raises:
            ConfigurationError: the file can't be read, or contains something else.
        """
        path = self.path / f"{name}.password"
        try:
            if not path.exists():
                draft = path.with_suffix(".draft")
                draft.unlink(missing_ok=True)
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                    file.write(secrets.token_hex(32))
                draft.replace(path)
            path.chmod(0o600)
            text = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"can't store a password in {path}: {error}") from error
        if not text.isalnum() or not text.isascii():  # it is put into a configuration file and a URL without escaping
            raise ConfigurationError(f"{path} does not contain a generated password: delete it to create a new one")
        return text

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)


LOOPBACK: Final = "127.0.0.1"

FLOWER_USER: Final = "tellback"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Options of `tellback up`: no `redis_url` embeds Redis, no `flower_port` skips Flower, port 0 is any free one."""

    settings: Settings
    redis_url: str | None
    workers: int
    redis_port: int
    flower_port: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPlan:
    """The programs to run, and the addresses that clients use; `settings` are those of the children."""

    settings: Settings
    data_dir: DataDir
    redis: ChildProgram | None
    redis_release: str
    workers: dict[str, ChildProgram]
    beat: ChildProgram
    flower: ChildProgram | None
    alerts: ChildProgram | None
    flower_url: str | None

    @property
    def after_redis(self) -> list[ChildProgram]:
        """The programs that need Redis, in starting order: beat last, so that its first message finds workers."""
        flower = [] if self.flower is None else [self.flower]
        alerts = [] if self.alerts is None else [self.alerts]
        return [*self.workers.values(), *flower, *alerts, self.beat]


def plan_system(options: UpOptions) -> SystemPlan:
    """Check everything that can be checked before a process starts, and return the plan.

    Raises:
        ConfigurationError: a package is missing, a port taken, a directory not writable, or Redis too old; one line.
    """
    check_installed("up", flower=options.flower_port is not None)
    data_dir = DataDir(options.settings.data_path)
    redis_port = options.redis_port if options.redis_url is None else None
    redis_port, flower_port = _choose_ports(redis_port, options.flower_port)
    redis, url, release = None, options.redis_url, ""
    if url is None:
        redis, url, release = _embedded_redis(data_dir, redis_port or 0)
    else:
        release = _check_given_redis(url)
    settings = msgspec.structs.replace(options.settings, redis_url=url, data_dir=str(data_dir.path))
    if settings.broker != url:  # raises for a cluster, which cannot be the broker
        _check_given_redis(settings.broker)
    environ = _child_environ(data_dir)
    flower, flower_url = (None, None) if flower_port is None else _flower_program(data_dir, environ, flower_port)
    return SystemPlan(
        settings=settings,
        data_dir=data_dir,
        redis=redis,
        redis_release=release,
        workers=_worker_programs(
            settings, data_dir, environ, options.workers, suffix="" if redis else _node_suffix(data_dir)
        ),
        beat=_celery_program("beat", beat(str(data_dir.beat / "schedule")), data_dir, environ),
        flower=flower,
        alerts=_alerts_program(data_dir, environ),
        flower_url=flower_url,
    )


def check_installed(command: str, *, flower: bool) -> None:
    """Check that the packages of workers, and of Flower, are there for a command; none of them is imported.

    Raises:
        ConfigurationError: some are missing; one line says how to install them.
    """
    wanted = {"celery": "workers", "sentence_transformers": "workers"} | ({"flower": "flower"} if flower else {})
    missing = [module for module in wanted if find_spec(module) is None]
    if missing:
        extras = ",".join(dict.fromkeys(wanted[module] for module in missing))
        others = " (or use --no-flower)" if missing == ["flower"] and command == "up" else ""
        names = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        raise ConfigurationError(f"`tellback {command}` requires {names}: pip install 'tellback[{extras}]'{others}")


def _choose_ports(redis_port: int | None, flower_port: int | None) -> tuple[int | None, int | None]:
    """Return the ports to use; 0 becomes a free port, never the same for both."""
    taken_by_redis = f"choose another with --port, or use that Redis with --redis-url redis://{LOOPBACK}:{redis_port}/0"
    with (
        _reserve_port(redis_port, taken_by_redis) as redis,
        _reserve_port(flower_port, "choose another with --flower-port") as ours,
    ):
        return (
            None if redis_port is None else int(redis.getsockname()[1]),
            None if flower_port is None else int(ours.getsockname()[1]),
        )


def _reserve_port(port: int | None, remedy: str) -> socket.socket:
    """Return a socket bound to the port, which proves that it is free; for None, an unbound one."""
    probe = socket.socket()
    if port is not None:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError) as error:
            probe.close()
            reason = error.strerror if isinstance(error, OSError) else "no such port"
            raise ConfigurationError(f"can't use port {port} ({reason}): {remedy}") from error
    return probe


def _check_given_redis(url: str) -> str:
    """Return the version of the Redis at `url`, as `check_redis` does; no error advises to start it by what failed."""
    try:
        return check_redis(url)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace(START_REDIS, "Start that server first")) from error


def _embedded_redis(data_dir: DataDir, port: int) -> tuple[ChildProgram, str, str]:
    server = find_program(data_dir.redis)
    password = data_dir.secret("redis")
    program = ChildProgram(
        name="redis",
        argv=[server.path, "-"],
        log=data_dir.logs / "redis.log",
        environ=_child_environ(data_dir),
        stdin=configuration(port=port, password=password, folder=data_dir.redis),
        cwd=data_dir.redis,
    )
    return program, f"redis://:{password}@{LOOPBACK}:{port}/0", server.release


def _child_environ(data_dir: DataDir) -> dict[str, str]:
    """Return the environment of children, without passwords: they find Redis by the connection file.

    CELERY_BROKER_URL is dropped because Celery would prefer it, perhaps another application's, to its configuration.
    """
    dropped = (f"{PREFIX}REDIS_URL", "CELERY_BROKER")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return inherited | {f"{PREFIX}DATA_DIR": str(data_dir.path), "PYTHONUNBUFFERED": "1"}


def _node_suffix(data_dir: DataDir) -> str:
    """Return what tells this system's workers from those of another on this host that uses the same Redis."""
    return f"-{zlib.crc32(os.fsencode(data_dir.path)):08x}"


def _worker_programs(
    settings: Settings, data_dir: DataDir, environ: dict[str, str], count: int, *, suffix: str = ""
) -> dict[str, ChildProgram]:
    """Return the workers' programs by node name."""
    host = settings.host_name
    environ = {f"{PREFIX}MODEL_PRELOAD": "true"} | environ  # only the worker of the model heeds it
    node = f"{suffix}@{host}"
    argvs = {"model": model_worker(f"model{node}")}  # first: it takes longest to start
    for number in range(1, count + 1):
        argvs[f"loops-{number}"] = loops_worker(f"loops-{number}{node}")
        argvs[f"commands-{number}"] = commands_worker(f"commands-{number}{node}", host)
    return {f"{name}{node}": _celery_program(name, argv, data_dir, environ) for name, argv in argvs.items()}


def _flower_program(data_dir: DataDir, environ: dict[str, str], port: int) -> tuple[ChildProgram, str]:
    password = data_dir.secret("flower")
    secret = environ | {"FLOWER_BASIC_AUTH": f"{FLOWER_USER}:{password}"}
    program = _celery_program("flower", flower(LOOPBACK, port), data_dir, secret, cwd=data_dir.path)
    return program, f"http://{FLOWER_USER}:{password}@{LOOPBACK}:{port}/"


def _alerts_program(data_dir: DataDir, environ: dict[str, str]) -> ChildProgram | None:
    """Return the program that sends alerts, or None if there is nobody to send them to."""
    if not any(environ.get(f"{PREFIX}ALERT_{receiver}") for receiver in ("WEBHOOK", "SLACK")):
        return None
    argv = [sys.executable, "-P", "-c", "from tellback.cli.app import main; main()", "alerts", "--send"]
    return ChildProgram(name="alerts", argv=argv, log=data_dir.logs / "alerts.log", environ=environ)


def _celery_program(
    name: str, argv: Argv, data_dir: DataDir, environ: dict[str, str], *, cwd: Path | None = None
) -> ChildProgram:
    """Return a program that runs Celery; -P keeps a module in the current directory from shadowing an installed one."""
    return ChildProgram(
        name=name,
        argv=[sys.executable, "-P", "-m", *argv],
        log=data_dir.logs / f"{name}.log",
        environ=environ,
        cwd=cwd,
    )
