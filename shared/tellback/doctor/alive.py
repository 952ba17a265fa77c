"""`python -m tellback.doctor.alive`: exit code 0 if one process is alive, for health checks of containers and units.

    alive worker NODE    the worker of this Celery node name takes tasks
    alive beat           a worker lately did what beat sends: any beat, since either of two is enough
    alive flower URL     Flower answers

It says why not on standard error, and imports neither Celery nor the model.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

import msgspec

from tellback.doctor.finding import Finding, ok, wrong
from tellback.doctor.processes import beat, team
from tellback.errors import TellbackError
from tellback.settings import load
from tellback.state.database import Database
from tellback.state.presence import Presence
from tellback.up.answers import http_answers


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 alive, 1 not, 2 wrong usage."""
    match arguments:
        case ["worker" | "beat", *rest] if len(rest) == (arguments[0] == "worker"):
            finding = _with_redis(*rest)
        case ["flower", url]:
            finding = ok("flower", url) if http_answers(url) else wrong("flower", f"{url} does not answer", "")
        case _:
            sys.stderr.write("usage: alive worker NODE | beat | flower URL\n")
            return 2
    if finding.state != "ok":
        sys.stderr.write(f"{finding.found}\n")
    return 0 if finding.state == "ok" else 1


def _with_redis(node: str | None = None) -> Finding:
    try:
        settings = load()
        settings = msgspec.structs.replace(settings, team=settings.served_teams[0])
        with contextlib.closing(Database(settings.redis_url)) as database:
            layout, _ = team(database, settings)
            presence = Presence(database, layout)
            if node is None:
                return beat(presence, settings, database.now_ms())
            if node in {worker.name for worker in presence.workers()}:
                return ok("worker", node)
            return wrong("worker", f"{node} gives no sign of life", "")
    except TellbackError as error:
        return wrong("redis", str(error), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
