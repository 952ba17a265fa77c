"""`tellback submit --follow`: a command's output while it runs, each stream to its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import typer

from tellback.cli.common import print_json

if TYPE_CHECKING:
    from tellback.client.commands import Job
    from tellback.contracts.commands import CommandRecord, OutputPiece


def follow_job(job: Job, seconds: float | None, *, as_json: bool) -> CommandRecord:
    """Print the output of a job as it comes; its record."""
    import math

    from tellback import clock

    end = clock.monotonic() + (math.inf if seconds is None else seconds)
    printing = _Printing(job.command_id, as_json=as_json)
    try:
        for piece in job.follow(timeout=seconds):
            printing.tell(piece)
        return job.wait(timeout=None if seconds is None else max(0.0, end - clock.monotonic()))
    except KeyboardInterrupt:
        raise interrupted(job, "following") from None


def interrupted(job: Job, what: str) -> typer.Exit:
    """Say that the command goes on; how to end."""
    submitted = job.submitted
    typer.echo(
        f"tellback: not {what} any longer; command {job.command_id} goes on, for {submitted.timeout:g} s at most; "
        f"its record: tellback records {submitted.session}",
        err=True,
    )
    return typer.Exit(130)


def print_output(text: str, stream: TextIO) -> None:
    """Print what a command said; on a terminal without what that would obey, since output comes from anybody."""
    if stream.isatty():
        text = "".join(char if char in "\n\t" or char.isprintable() else repr(char)[1:-1] for char in text)
    stream.buffer.write(text.encode("utf-8", "replace"))
    stream.flush()


class _Printing:
    """Prints pieces, and says what is not output of the command itself on standard error."""

    def __init__(self, command_id: str, *, as_json: bool) -> None:
        self._attempt = command_id
        self._as_json = as_json
        self._live = False
        self._recorded = False

    def tell(self, piece: OutputPiece) -> None:
        import sys

        import msgspec

        if self._as_json:
            print_json(msgspec.to_builtins(piece))
            return
        if piece.command_id != self._attempt:
            self._attempt, self._recorded = piece.command_id, False
            self._say(f"it was lost and runs again as {piece.command_id}")
        if piece.dropped:
            self._say(f"{piece.dropped} bytes of output are not shown here")
        if piece.recorded and self._live and not self._recorded:
            self._say("its output could not be followed to its end; the record keeps:")
        self._live, self._recorded = self._live or not piece.recorded, piece.recorded
        print_output(piece.text, sys.stderr if piece.stream == "stderr" else sys.stdout)

    def _say(self, text: str) -> None:
        typer.echo(f"tellback: {text}", err=True)
