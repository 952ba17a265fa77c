"""Waits until everything that was accepted has had its effect, however slow the machine is."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tellback import Tellback, clock, connect
from tellback.errors import TellbackError
from tellback.names import Family
from tellback.state.intake import Intake
from tests.chaos.loads import CHANNEL
from tests.chaos.system import System

LONGEST: Final = 300.0
"""Seconds: what has not settled by then counts as never. A loaded machine took 40."""
POOL: Final = "commands"


def settle(system: System, tb: Tellback, report: Callable[[str], None], longest: float = LONGEST) -> list[str]:
    """End the hosts, send what their dead left on disk, and return what is still unsettled after `longest` seconds."""
    end = clock.monotonic() + longest
    report("hosts end")
    left = _end_hosts(system, end)
    report("spools are sent")
    left += _send_spools(system, end)
    unsettled, quiet = ["never looked"], 0
    while quiet < 3 and clock.monotonic() < end:
        unsettled = _unsettled(tb)
        quiet = 0 if unsettled else quiet + 1
        report(f"waiting for {unsettled[0] if unsettled else 'silence'}")
        system.revive(float("inf"))
        clock.sleep(0.5)
    transports = system.of("transport")
    for member in transports:
        member.retired = True
        system.signal(member, signal.SIGTERM)
    for member in transports:
        if member.process is not None:
            member.process.wait(60)
    return [*left, *unsettled]


def _end_hosts(system: System, end: float) -> list[str]:
    """Ask all makers of load to end by themselves; name those that do not, and kill them."""
    makers = [member for kind in ("host", "foreign", "hooks") for member in system.of(kind)]
    for member in makers:
        system.signal(member, signal.SIGTERM)
        member.retired = True
    left: list[str] = []
    for member in makers:
        while member.is_alive and clock.monotonic() < end:
            clock.sleep(0.1)
        if member.is_alive:
            left.append(f"{member.lives[-1]} does not end")
        system.kill(member)
    return left


def _send_spools(system: System, end: float) -> list[str]:
    """Send what waits on each host's disk, as the next process of that host would."""
    left: list[str] = []
    for folder in system.data_dirs:
        url = next(
            m.env["TELLBACK_REDIS_URL"] for m in system.members.values() if m.env["TELLBACK_DATA_DIR"] == str(folder)
        )
        settings = msgspec.structs.replace(system.settings, redis_url=url, data_dir=str(folder))
        while _spools(folder) and clock.monotonic() < end:
            with connect(settings=settings) as tb:
                for family in Family:
                    tb.context.publisher.send_orphans(family)
                clock.sleep(0.5)
        left += [f"on disk: {path}" for path in _spools(folder)]
    return left


def _spools(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.spool") if path.exists()]


def _unsettled(tb: Tellback) -> list[str]:
    """Name the keys of the intake, of commands and of turns that still hold work."""
    database, layout = tb.context.database, tb.context.layout
    try:
        found = [
            f"{n} entries in {family} of {shard}"
            for (shard, family), n in Intake(database, layout).lengths().items()
            if n
        ]
        keys = [
            key
            for shard in layout.all
            for key in (shard.key("jobs", POOL), shard.key("running"), shard.key("due"), shard.key("out", CHANNEL))
        ]
        counts = database.pipeline([("ZCARD", key) for key in keys])
    except TellbackError as error:
        return [str(error)]
    return found + [f"{n} of {key}" for key, n in zip(keys, counts, strict=True) if n]
