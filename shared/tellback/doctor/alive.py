"""`python -m tellback.doctor.alive`: a health check for containers and service units; exits 0 if a process is alive.

    alive worker NODE    the worker with this Celery node name takes tasks
    alive beat           a worker recently ran a task that beat sends; if two beats run, either counts
    alive flower URL     Flower responds

A failed check prints the reason on standard error. Checks run every few seconds, so this module imports neither Celery
nor the model.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

import msgspec

from tellback.doctor.infrastructure import DoctorFinding, check_beat, ok, open_team, wrong
from tellback.errors import TellbackError
from tellback.settings import load
from tellback.state.database import Database
from tellback.state.presence import Presence
from tellback.up.health import flower_is_healthy


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 alive, 1 not alive, 2 usage error."""
    match arguments:
        case ["worker" | "beat", *rest] if len(rest) == (arguments[0] == "worker"):
            finding = _check_worker(*rest)
        case ["flower", url]:
            finding = ok("flower", url) if flower_is_healthy(url) else wrong("flower", f"{url} does not respond", "")
        case _:
            sys.stderr.write("usage: alive worker NODE | beat | flower URL\n")
            return 2
    if finding.state != "ok":
        sys.stderr.write(f"{finding.found}\n")
    return 0 if finding.state == "ok" else 1


def _check_worker(node: str | None = None) -> DoctorFinding:
    try:
        settings = load()
        settings = msgspec.structs.replace(settings, team=settings.served_teams[0])
        with contextlib.closing(Database(settings.redis_url)) as database:
            layout, _ = open_team(database, settings)
            presence = Presence(database, layout)
            if node is None:
                return check_beat(presence, settings, database.now_ms())
            if node in {worker.name for worker in presence.workers()}:
                return ok("worker", node)
            return wrong("worker", f"{node} has sent no recent heartbeat", "")
    except TellbackError as error:
        return wrong("redis", str(error), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
