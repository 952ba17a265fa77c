#!/usr/bin/env python3
"""Run a command and append one record of what it did: exact argv, output of both streams, exit code, time.

    python run_with_feedback.py --note "expect two failures" -- pytest -q
    python run_with_feedback.py --last 3

The first form exits with the command's exit code, or with 1 if there was none. The second prints the newest records of
the current file, which an agent reads at each turn; a program calls `load()`. The file is rotated at 1 MB to .1 ... .5.
`tellback init-runner` wrote this script, and `tellback records --file` and `tellback gate --file` read its records. It
needs Python 3.11 or newer on Linux or macOS, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tellback.commands.journal import RotatingJournal
from tellback.commands.start_errors import command_error, signal_name, start_error

# Your project's choices. Of each stream the first and last lines are kept, and of each line its beginning.
HEAD_LINES = 5
TAIL_LINES = 30
LINE_BYTES = 2_048
TIMEOUT = 30.0  # seconds, without --timeout
GRACE = 5.0  # seconds between TERM and KILL, and for processes that a command left in the background
SESSION = "local"
RECORDS = Path(__file__).resolve().parent / "feedback_record.jsonl"
# Each line that matches one of these patterns is replaced by `[redacted: name]` before it is truncated or stored, in
# output, argv, note and error. Add patterns for your services' secrets; each one sees a single line.
REDACTION = (
    ("bearer", r"^Bearer |[Aa]uthorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?Bearer "),
    ("password", r"(?i)password="),
    ("api-key", r"(?i)api[_-]?key="),
    ("aws-access-key", r"AKIA[0-9A-Z]{16}"),
    ("slack-token", r"xox[baprs]-"),
)

_RULES = [(name, re.compile(pattern)) for name, pattern in REDACTION]
_HELD = LINE_BYTES + 1_024  # bytes of a line to search, so that a secret that begins before the cut is recognized
_TICK = 0.05  # seconds
_OVERDUE = "overdue"


def redact(text: str) -> str:
    """Replace each line that a rule matches by a marker."""
    return "\n".join(f"[redacted: {rule}]" if (rule := _rule(line)) else line for line in text.split("\n"))


def _rule(line: str) -> str | None:
    return next((name for name, pattern in _RULES if pattern.search(line)), None)


class Capture:
    """The kept lines of one stream. The result does not depend on how the bytes arrive; the middle is only counted."""

    def __init__(self) -> None:
        self.size = 0
        self._head: list[tuple[bytes, int]] = []  # the beginning of a line, and its whole size
        self._tail: deque[tuple[bytes, int]] = deque(maxlen=TAIL_LINES)
        self._dropped = 0
        self._line = self._shown = (b"", 0)  # what came after the last carriage return, and the state before it
        self._pending = False

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self.size += len(chunk)
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._extend(part)
            self._end_line()
        self._extend(rest)

    def finish(self) -> tuple[str, bool, bool]:
        """Return the text, and whether anything was truncated and redacted."""
        if self._pending:
            self._end_line()
        shown = [_render(*line) for line in (*self._head, *self._tail)]
        texts = [text for text, _, _ in shown]
        if self._dropped:
            texts.insert(HEAD_LINES, f"...truncated {self._dropped} lines...")
        cut = self._dropped > 0 or any(cut for _, cut, _ in shown)
        return "\n".join(texts), cut, any(redacted for _, _, redacted in shown)

    def _extend(self, part: bytes) -> None:
        for number, state in enumerate(part.split(b"\r")):
            if number:  # a progress bar rewrites its line, and only the last state counts
                self._shown = self._line if self._line[1] else self._shown
                self._line = (b"", 0)
            start, size = self._line
            self._line = (start + state[: _HELD - len(start)], size + len(state))
        self._pending |= bool(part)

    def _end_line(self) -> None:
        line = self._line if self._line[1] else self._shown
        if len(self._head) < HEAD_LINES:
            self._head.append(line)
        else:
            self._dropped += len(self._tail) == TAIL_LINES
            self._tail.append(line)
        self._line = self._shown = (b"", 0)
        self._pending = False


def _render(start: bytes, size: int) -> tuple[str, bool, bool]:
    text = start.decode(errors="replace")
    if rule := _rule(text):
        return f"[redacted: {rule}]", False, True
    if size <= LINE_BYTES:
        return text, False, False
    end = LINE_BYTES
    while end > LINE_BYTES - 3 and end < len(start) and start[end] & 0xC0 == 0x80:  # not within a character
        end -= 1
    return f"{start[:end].decode(errors='replace')}...truncated {size - end} bytes...", True, False


def run(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    timeout: float = TIMEOUT,
    note: str | None = None,
    parent: str | None = None,
    inputs: Sequence[str] = (),
    session: str = SESSION,
    file: str | os.PathLike[str] = RECORDS,
) -> dict[str, Any]:
    """Run a command, append its record to `file` and return it; `parent` is the id of the attempt that it retries.

    Raises:
        OSError: the record could not be appended.
    """
    where = str(Path(cwd or ".").resolve())
    captures = (Capture(), Capture())
    started = datetime.now(UTC)
    exit_code, error, took = _execute(argv, where, timeout, captures)
    (stdout, stdout_cut, stdout_redacted), (stderr, stderr_cut, stderr_redacted) = (one.finish() for one in captures)
    record = {
        "command_id": secrets.token_hex(8),
        "session": session,
        "command": [redact(_readable(argument)) for argument in argv],
        "parent_command_id": parent,
        "input_command_ids": list(inputs),
        "cwd": redact(_readable(where)),
        "host": socket.gethostname(),
        "worker": None,
        "attempt": 1,
        "stdout_tail": stdout,
        "stderr_tail": stderr,
        "exit_code": None if error else exit_code,
        "signal": signal_name(exit_code),
        "duration_ms": took or 0,
        "started_at": started.isoformat(timespec="milliseconds").replace("+00:00", "Z") if took is not None else None,
        "agent_note": None if note is None else redact(" ".join(note.split())),
        "error": None if error is None else redact(_readable(error)),
        "truncated": {"stdout": stdout_cut, "stderr": stderr_cut},
        "redacted": {"stdout": stdout_redacted, "stderr": stderr_redacted},
        "output_bytes": captures[0].size + captures[1].size,
        "waiver": None,
    }
    RotatingJournal(Path(file)).append(
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    )
    return record


def load(file: str | os.PathLike[str] = RECORDS, *, rotated: bool = False) -> list[dict[str, Any]]:
    """Load the records of the current file, or with `rotated` of the whole set, oldest first; skip unreadable lines."""
    found: list[dict[str, Any]] = []
    for _, data in RotatingJournal(Path(file)).read(rotated=rotated):
        for line in data.split(b"\n"):
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                record: Any = json.loads(line)
                if record["command_id"]:
                    found.append(record)
    return found


def _execute(
    argv: Sequence[str], cwd: str, timeout: float, captures: tuple[Capture, Capture]
) -> tuple[int | None, str | None, int | None]:
    """Return the exit code, the error if the code does not count, and the milliseconds if the command was started."""
    if problem := command_error(argv):
        return None, problem, None
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        return None, start_error(number, str(error), argv=argv, cwd=cwd, env=os.environ), None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, captures[0])
        selector.register(process.stderr, selectors.EVENT_READ, captures[1])
        reason, ended = _watch(process, selector, began + timeout)
    reason = f"timed out after {timeout:g} s" if reason == _OVERDUE else reason
    return process.returncode, reason, round((ended - began) * 1000)


def _watch(
    process: subprocess.Popen[bytes], selector: selectors.BaseSelector, deadline: float
) -> tuple[str | None, float]:
    """Read until the command and both streams end or their time is over, then kill the command's process group.

    A process that left the group (setsid) is not found; `tellback run` ends that too.
    """
    reason, ended = None, None
    steps = iter((signal.SIGTERM,))
    try:
        while selector.get_map() or process.poll() is None:
            _read(process, selector)
            now = time.monotonic()
            if ended is None and process.poll() is not None:
                ended, deadline = now, min(deadline, now + GRACE)
            if now < deadline:
                continue
            if ended is not None:
                break  # a background process keeps a pipe open
            reason, deadline = _OVERDUE, now + GRACE
            _signal(process, next(steps, signal.SIGKILL))
    except KeyboardInterrupt:
        reason = "stopped by SIGINT"
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()
    return reason, ended or time.monotonic()


def _read(process: subprocess.Popen[bytes], selector: selectors.BaseSelector) -> None:
    """Read the available output, or wait a moment."""
    if not selector.get_map():
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TICK)
        return
    for key, _ in selector.select(_TICK):
        chunk = os.read(key.fd, 1 << 16)
        if chunk:
            key.data.feed(chunk)
        else:
            selector.unregister(key.fileobj)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(OSError):  # the group may be empty
        os.killpg(process.pid, number)


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _summary(record: Mapping[str, Any]) -> str:
    end = f"no exit code: {record['error']}" if record["exit_code"] is None else f"exit {record['exit_code']}"
    command = shlex.join(record["command"])
    return " | ".join([end, f"{record['duration_ms'] / 1000:.2f} s", command, record["command_id"]])


def main() -> int:
    """Run a command or show records, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run a command and append its record.")
    parser.add_argument("--note", help="one line on what is expected")
    parser.add_argument("--parent", metavar="ID", help="the attempt that this one retries")
    parser.add_argument("--input", metavar="ID", action="append", default=[], help="a command whose output is used")
    parser.add_argument("--cwd", metavar="DIR", help="directory to run in")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds; default: %(default)s")
    parser.add_argument("--session", default=SESSION, help="whose record it is; default: %(default)s")
    parser.add_argument("--file", default=RECORDS, help="where records are; default: beside this script")
    parser.add_argument("--json", action="store_true", help="print the record instead of the output")
    parser.add_argument("--last", type=int, metavar="N", help="print the newest N records as JSON and run nothing")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments; there is no shell")
    given = parser.parse_args()
    if given.last is not None:
        for record in load(given.file)[-given.last :] if given.last > 0 else []:
            print(json.dumps(record))
        return 0
    argv = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not argv or not given.timeout > 0:
        parser.error("name a command and a timeout above 0")
    try:
        record = run(
            argv,
            cwd=given.cwd,
            timeout=given.timeout,
            note=given.note,
            parent=given.parent,
            inputs=given.input,
            session=given.session,
            file=given.file,
        )
    except OSError as error:
        print(f"there is no record: {error}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(record))
    else:
        for text, stream in ((record["stdout_tail"], sys.stdout.buffer), (record["stderr_tail"], sys.stderr.buffer)):
            stream.write(f"{text}\n".encode() if text else b"")
            stream.flush()
        print(_summary(record), file=sys.stderr)
    code: int | None = record["exit_code"]
    if code is None:
        return 1
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
