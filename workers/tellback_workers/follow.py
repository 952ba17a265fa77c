"""Publishing the output of a command that is followed, beside the thread that reads it and never in its way."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import structlog

from tellback import clock
from tellback.commands.follow import Tap
from tellback.errors import Unavailable
from tellback.redaction import Redactor
from tellback.state.follow import FollowedOutput
from tellback.state.jobs import JobLease
from tellback_workers.runtime import Runtime

PERIOD: Final = 0.1  # seconds between two looks: what comes between them goes out together
LAST_PATIENCE: Final = 1.0  # seconds that a record waits, at most, for the last of the output to be published

_log = structlog.get_logger("tellback.follow")


@contextmanager
def followed(process: Runtime, team: str, lease: JobLease, redactor: Redactor) -> Generator[Tap | None]:
    """What takes the command's output, if that is to be followed; with the end of the block the rest goes out."""
    submitted = lease.submitted
    if not submitted.follow:
        yield None
        return
    tap = Tap(redactor)
    output = FollowedOutput(process.brief, process.layout(team), submitted.session, submitted.command_id)
    publishing = _Publishing(tap, output)
    try:
        yield tap
    finally:
        if not publishing.end():
            _log.warning("follow.not_ended", command_id=submitted.command_id)


class _Publishing:
    """A thread that looks at what a tap has taken, until the command's end. Whatever fails, the command goes on."""

    def __init__(self, tap: Tap, output: FollowedOutput) -> None:
        self._tap = tap
        self._output = output
        self._ended = threading.Event()
        self._given_up_at = 0.0
        self._away = False
        self._thread = threading.Thread(target=self._run, name="job-output", daemon=True)
        self._thread.start()

    def end(self) -> bool:
        """The command has ended: whether all that may be shown has been published in time."""
        self._given_up_at = clock.monotonic() + LAST_PATIENCE
        self._ended.set()
        self._thread.join(LAST_PATIENCE)
        return not self._thread.is_alive() and not self._output.unsent

    def _run(self) -> None:
        try:
            self._publish()
        except Exception:  # noqa: BLE001 - whatever it is, the command and its record are worth more
            _log.exception("follow.failed")

    def _publish(self) -> None:
        while not self._ended.wait(PERIOD):
            if not self._output.unsent:  # else Redis is away, and the tap holds what comes within its bounds
                self._output.add(self._tap.pieces())
            self._send()
        self._output.add(self._tap.pieces(final=True))
        self._output.end(self._tap.dropped)
        while not self._send() and clock.monotonic() < self._given_up_at:
            clock.sleep(PERIOD)

    def _send(self) -> bool:
        try:
            self._output.send()
        except Unavailable as away:
            if not self._away:  # told once
                _log.warning("follow.postponed", reason=str(away))
            self._away = True
            return False
        self._away = False
        return True
