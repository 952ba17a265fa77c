"""What `tellback up` is to run: the Redis of the settings or an embedded one, and the programs beside it."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from tellback.errors import ConfigurationError
from tellback.settings import PREFIX, Settings
from tellback.up import commands
from tellback.up.answers import check_redis
from tellback.up.child import Program
from tellback.up.data_dir import DataDir
from tellback.up.redis_server import configuration, find_program

LOOPBACK: Final = "127.0.0.1"
FLOWER_USER: Final = "tellback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked for: without `redis_url` Redis is embedded, without `flower_port` no Flower; port 0: any."""

    settings: Settings
    redis_url: str | None
    workers: int
    redis_port: int
    flower_port: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The programs, and the addresses that clients use; `settings` are those of the children."""

    settings: Settings
    data_dir: DataDir
    redis: Program | None
    redis_release: str
    workers: dict[str, Program]
    beat: Program
    flower: Program | None
    flower_url: str | None

    @property
    def after_redis(self) -> list[Program]:
        """Everything that needs Redis, in the order of starting: beat last, so that its first message finds workers."""
        flower = [] if self.flower is None else [self.flower]
        return [*self.workers.values(), *flower, self.beat]


def assemble(options: Options) -> System:
    """Check what can be checked before anything runs, and say what to run.

    Raises:
        ConfigurationError: something is missing, taken, unwritable or too old; the message is one line.
    """
    _check_installed(flower=options.flower_port is not None)
    data_dir = DataDir(options.settings.data_path)
    redis_port = options.redis_port if options.redis_url is None else None
    redis_port, flower_port = _settle_ports(redis_port, options.flower_port)
    redis, url, release = None, options.redis_url, ""
    if url is None:
        redis, url, release = _embedded(data_dir, redis_port or 0)
    else:
        release = check_redis(url)
    if options.settings.broker_url:
        check_redis(options.settings.broker_url)
    settings = msgspec.structs.replace(options.settings, redis_url=url, data_dir=str(data_dir.path))
    environ = _environ(data_dir)
    flower, flower_url = (None, None) if flower_port is None else _flower(data_dir, environ, flower_port)
    return System(
        settings=settings,
        data_dir=data_dir,
        redis=redis,
        redis_release=release,
        workers=_workers(settings, data_dir, environ, options.workers),
        beat=_celery("beat", commands.beat(str(data_dir.beat / "schedule")), data_dir, environ),
        flower=flower,
        flower_url=flower_url,
    )


def _check_installed(*, flower: bool) -> None:
    wanted = {"celery": "workers", "sentence_transformers": "workers"} | ({"flower": "flower"} if flower else {})
    missing = [module for module in wanted if find_spec(module) is None]
    if missing:
        extras = ",".join(dict.fromkeys(wanted[module] for module in missing))
        others = " (or use --no-flower)" if missing == ["flower"] else ""
        names = " and ".join(missing)
        raise ConfigurationError(f"`tellback up` needs {names}: pip install 'tellback[{extras}]'{others}")


def _settle_ports(redis_port: int | None, flower_port: int | None) -> tuple[int | None, int | None]:
    """The ports to use; for 0 one that is free, and not the same for both."""
    taken_by_redis = (
        f"choose another with --port, or use the Redis there with --redis-url redis://{LOOPBACK}:{redis_port}/0"
    )
    with (
        _listener(redis_port, taken_by_redis) as redis,
        _listener(flower_port, "choose another with --flower-port") as ours,
    ):
        return (
            None if redis_port is None else int(redis.getsockname()[1]),
            None if flower_port is None else int(ours.getsockname()[1]),
        )


def _listener(port: int | None, remedy: str) -> socket.socket:
    """A socket bound to the port, to see that nobody else has it; not bound for None."""
    probe = socket.socket()
    if port is not None:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError) as error:
            probe.close()
            reason = error.strerror if isinstance(error, OSError) else "no such port"
            raise ConfigurationError(f"port {port} cannot be used ({reason}): {remedy}") from error
    return probe


def _embedded(data_dir: DataDir, port: int) -> tuple[Program, str, str]:
    server = find_program(data_dir.redis)
    password = data_dir.secret("redis")
    program = Program(
        name="redis",
        argv=[server.path, "-"],
        log=data_dir.logs / "redis.log",
        environ=_environ(data_dir),
        stdin=configuration(port=port, password=password, folder=data_dir.redis),
        cwd=data_dir.redis,
    )
    return program, f"redis://:{password}@{LOOPBACK}:{port}/0", server.release


def _environ(data_dir: DataDir) -> dict[str, str]:
    """What children inherit: no password, since they find Redis through the connection file of the data directory.

    Celery would prefer the broker of another application's CELERY_BROKER_URL to the one of its configuration.
    """
    dropped = (f"{PREFIX}REDIS_URL", "CELERY_BROKER")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return inherited | {f"{PREFIX}DATA_DIR": str(data_dir.path), "PYTHONUNBUFFERED": "1"}


def _workers(settings: Settings, data_dir: DataDir, environ: dict[str, str], count: int) -> dict[str, Program]:
    """Programs by node name."""
    host = settings.host_name
    argvs = {"model": commands.model_worker(f"model@{host}")}  # first: it takes longest to start
    for number in range(1, count + 1):
        argvs[f"loops-{number}"] = commands.loops_worker(f"loops-{number}@{host}")
        argvs[f"commands-{number}"] = commands.commands_worker(f"commands-{number}@{host}", host)
    return {f"{name}@{host}": _celery(name, argv, data_dir, environ) for name, argv in argvs.items()}


def _flower(data_dir: DataDir, environ: dict[str, str], port: int) -> tuple[Program, str]:
    password = data_dir.secret("flower")
    secret = environ | {"FLOWER_BASIC_AUTH": f"{FLOWER_USER}:{password}"}
    program = _celery("flower", commands.flower(LOOPBACK, port), data_dir, secret, cwd=data_dir.path)
    return program, f"http://{FLOWER_USER}:{password}@{LOOPBACK}:{port}/"


def _celery(
    name: str, argv: commands.Argv, data_dir: DataDir, environ: dict[str, str], *, cwd: Path | None = None
) -> Program:
    """A Celery command under this interpreter; -P, so that no module of the current folder stands in for another."""
    return Program(
        name=name,
        argv=[sys.executable, "-P", "-m", *argv],
        log=data_dir.logs / f"{name}.log",
        environ=environ,
        cwd=cwd,
    )
