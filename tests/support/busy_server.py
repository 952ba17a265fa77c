"""A server that runs somebody's script and answers all others BUSY."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from redis.exceptions import ResponseError

from tellback.errors import Unavailable
from tellback.state.database import Database
from tests.support.waiting import wait_until

MARK = "seen-by-others"


@contextmanager
def kept_busy(url: str) -> Generator[None]:
    """Keep a server busy until the block ends; it starts when others get BUSY."""
    database, other = Database(url), Database(url, call_deadline=120.0)
    before = database.command("CONFIG", "GET", "busy-reply-threshold")[1]
    database.command("CONFIG", "SET", "busy-reply-threshold", 50)
    script = threading.Thread(target=_run_for_ever, args=(other,))
    script.start()
    try:
        wait_until(lambda: _is_busy(database), "others get BUSY")
        yield
    finally:
        database.command("SCRIPT", "KILL")
        script.join()
        database.command("CONFIG", "SET", "busy-reply-threshold", before)
        database.close()
        other.close()


def _run_for_ever(database: Database) -> None:
    with suppress(ResponseError):  # that it was killed
        database.command("EVAL", "while true do end", 0)


def _is_busy(database: Database) -> bool:
    try:
        database.command("GET", MARK)
    except (ResponseError, Unavailable) as refused:
        return "BUSY" in str(refused)
    return False
