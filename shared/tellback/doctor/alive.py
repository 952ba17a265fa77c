"""`python -m tellback.doctor.alive`: a health check for containers and service units; exits 0 if a process is alive.

    alive worker NODE    the worker with this Celery node name takes tasks
    alive --kill-after SECONDS worker NODE
                         as above, and a worker of this host that has been silent for so long is killed
    alive beat           a worker recently ran a task that beat sends; if two beats run, either counts
    alive flower URL     Flower responds

Docker restarts a container that has ended, and none that is unhealthy: `--kill-after` ends a worker that hangs. It does
nothing while Redis is away. It finds the worker by its name among the command lines of the Python processes of this
host or, in a container, of that container, so no other system there may have a worker of that name. A failed check
prints the reason on standard error. Checks run every few seconds, so this module imports neither Celery nor the model.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

from tellback import clock
from tellback.doctor.infrastructure import DoctorFinding, check_beat, ok, wrong
from tellback.errors import TellbackError
from tellback.process_privacy import forbid_dumps
from tellback.settings import load
from tellback.state.database import Database
from tellback.state.presence import Presence
from tellback.up.health import flower_is_healthy

_RUNNERS: Final = ("coverage", "debugpy")  # programs that run a script within themselves


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 alive, 1 not alive, 2 usage error."""
    match arguments:
        case ["--kill-after", seconds, "worker", node] if seconds.isdecimal():
            finding = _check_worker(node)
            _kill_silent(node, int(seconds), finding)
        case ["worker" | "beat", *rest] if len(rest) == (arguments[0] == "worker"):
            finding = _check_worker(*rest)
        case ["flower", url]:
            finding = ok("flower", url) if flower_is_healthy(url) else wrong("flower", f"{url} does not respond", "")
        case _:
            sys.stderr.write("usage: alive [--kill-after SECONDS] worker NODE | beat | flower URL\n")
            return 2
    if finding.state != "ok":
        sys.stderr.write(f"{finding.found}\n")
    return 0 if finding.state == "ok" else 1


def _check_worker(node: str | None = None) -> DoctorFinding:
    try:
        settings = load()
        settings = msgspec.structs.replace(settings, team=[*settings.served_teams, settings.team][0])
        with contextlib.closing(Database(settings.redis_url)) as database:
            presence = Presence(database, settings.team)
            if node is None:
                return check_beat(presence, settings, database.now_ms())
            if node in {worker.name for worker in presence.workers()}:
                return ok("worker", node)
            return wrong("worker", f"{node} has sent no recent heartbeat", "")
    except TellbackError as error:
        return wrong("redis", str(error), "")


def _kill_silent(node: str, seconds: int, finding: DoctorFinding) -> None:
    """Kill the worker `node` if all checks of the last `seconds` failed; they share a file for that."""
    since = Path(tempfile.gettempdir()) / f"tellback-silent-{os.getuid()}-{node.replace('/', '_')}"
    if finding.state == "ok" or finding.check != "worker":  # while Redis is away, the worker may be well
        since.unlink(missing_ok=True)
        return
    with contextlib.suppress(FileExistsError):
        since.touch(exist_ok=False)
    failed_at = since.stat().st_mtime
    if clock.wall() - failed_at < seconds:
        return
    since.unlink(missing_ok=True)
    for process in _processes_of(node, failed_at):
        sys.stderr.write(f"killing process {process.pid}\n")
        if os.getuid() == 0:  # in a container without CAP_KILL root may end no process of another user
            os.setuid(process.uids().real)
        process.kill()  # its pool processes end with it


def _processes_of(node: str, before: float) -> list[psutil.Process]:
    """Return the main process of a worker on this host, unless it was started since: one that starts is silent too.

    Its children have its command line. What started it, such as `timeout` or an init, has more words than that.
    """
    found: dict[int, tuple[psutil.Process, int, list[str]]] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            names = [word.rpartition("=")[2].removeprefix("-n").replace("%h", socket.gethostname()) for word in words]
            if not any(word.startswith(("-n", "--hostname")) for word in words):
                names.append(f"celery@{socket.gethostname()}")  # Celery's own
            named = node in names and "worker" in names and not _starts_elsewhere(words)
            if named and _runs_python(process.pid) and os.getuid() in (0, process.uids().real):
                found[process.pid] = process, process.ppid(), words
    children = {pid for pid, (_, parent, words) in found.items() if parent in found and found[parent][2] == words}
    starters = {parent for pid, (_, parent, _) in found.items() if pid not in children}
    return [
        process
        for pid, (process, _, _) in found.items()
        if pid not in children | starters | {os.getpid()} and process.create_time() <= before and _is_here(pid)
    ]


def _starts_elsewhere(words: Sequence[str]) -> bool:
    """Return True for a program in Python that starts `celery` elsewhere, such as `podman-compose run loops celery`.

    A script whose first argument is `celery`, or a program that runs a module as Python does, is the worker itself.
    """
    rest = iter(words)
    for word in rest:
        if word in ("-X", "-W"):  # options of the interpreter with a value
            next(rest, None)
        elif not word.startswith("-") and not _is_interpreter(word) and word != words[0]:
            program, *arguments = (Path(each).name for each in (word, *rest))
            before = arguments[: arguments.index("celery")] if "celery" in arguments else []
            starts_another = any(_is_interpreter(each) or each in _RUNNERS for each in before)
            runs_module = before[-1:] == ["-m"] and not starts_another
            return bool(before) and not runs_module and program not in ("celery", *_RUNNERS)
    return False


def _is_interpreter(program: str) -> bool:
    return Path(program).name.startswith(("python", "pypy"))


def _runs_python(pid: int) -> bool:
    """Return False for another program, such as `docker run IMAGE celery worker`, whose arguments are the worker's.

    An interpreter of another name, such as a loader that was given Python, is that of this process too.
    """
    try:
        program = Path(f"/proc/{pid}/exe").readlink()
        return _is_interpreter(program.name) or program == Path("/proc/self/exe").readlink()
    except OSError:  # another system than Linux; or a worker, which forbids other processes to read this
        return True


def _is_here(pid: int) -> bool:
    """Return False for a process of a container, if this one runs outside: its name is one of another system."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - no path
    except OSError:  # another system than Linux; or in a container, whose root may not read it and sees no other
        return True


if __name__ == "__main__":
    forbid_dumps()  # the environment has a login; commands run as this user
    sys.exit(main(sys.argv[1:]))
