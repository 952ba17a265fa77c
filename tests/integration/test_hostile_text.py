"""Hostile text from agents through the commands that print it: in a terminal, in a pipe and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import termios
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tellback import CommandRecord, OutgoingResponse, SignalItem, Tellback
from tellback.commands.record import RecordFile
from tellback.errors import TellbackError
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import Intake
from tellback.state.intake_lease import RawEntry
from tellback.state.keys import Layout, stream_of
from tests.support.hostile import HOSTILE, hidden, marks_in_a_row
from tests.support.intake_entries import read_new
from tests.support.signals import Bench, item, signal
from tests.support.turns import opened, overdue
from tests.support.workers import environment

# One process for all commands: to start one for each would take most of the time.
RUNNER: Final = """
import json, sys
from typer.main import get_command
from tellback.cli.app import app
for arguments in json.load(open(sys.argv[1])):
    print("==>", ascii(arguments), flush=True)
    try:
        get_command(app)(arguments, standalone_mode=False)
    except BaseException as error:
        print("raised", type(error).__name__, ascii(error), flush=True)
"""
BANK: Final = "[bold]b[/]\x1b]0;bank\x07\x9b2J\r\u202e"
SESSION: Final = "[link=https://evil.example]s\x1b[2J\u202e"
SHOWN: Final = [name for name in HOSTILE if name != "long"]  # a row of 20,000 characters is shown as the others are


def printed_by(settings: Settings, commands: list[list[str]], folder: Path, *, terminal: bool) -> str:
    """Everything that these commands print, on standard output and error."""
    file = folder / "commands.json"
    file.write_text(json.dumps(commands))
    # TERM=dumb: no styles of our own, so every escape would be one of theirs. COLUMNS: no line is folded.
    given = environment(settings, {"TERM": "dumb", "COLUMNS": "4000", "TELLBACK_DATA_DIR": str(folder)})
    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST  # or the terminal itself would put a carriage return into each line
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    where: Any = theirs if terminal else subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(file)], env=given, cwd=folder, stdout=where, stderr=subprocess.STDOUT
    )
    os.close(theirs)
    parts: list[bytes] = []
    with suppress(OSError):  # how a pseudo-terminal says end of file
        while part := os.read(ours if process.stdout is None else process.stdout.fileno(), 65_536):
            parts.append(part)
    os.close(ours)
    assert process.wait(60) == 0
    if process.stdout is not None:
        process.stdout.close()
    return b"".join(parts).decode()


@pytest.fixture
def reported(
    tb: Tellback, bench: Bench, database: Database, layout: Layout, consume: Callable[[], None], tmp_path: Path
) -> int:
    """All that a hostile host could publish; returns how many of the texts were accepted."""
    accepted, items = 0, list[SignalItem]()
    prompt = tb.prompt(SESSION, "p")
    for number, name in enumerate(SHOWN):
        text = HOSTILE[name]
        RecordFile(tmp_path / "records.jsonl").append(_record(number, text.encode("utf-8", "replace").decode()))
        with suppress(TellbackError):
            prompt.tool_invoked(text, params={"q": text}, result=text)
            opened(tb, conversation=text, channel=text, text=text).respond(OutgoingResponse.text_only(text))
            overdue(tb, conversation=text, text=text)
            items.append(item(text.encode("utf-8", "replace").decode(), "a", context=text))
            accepted += 1
    signal(tb, bench, items, bank=BANK)
    consume()
    _add_letter(database, layout)
    return accepted


def _record(number: int, text: str) -> CommandRecord:
    return CommandRecord(
        command_id=f"c{number}",
        session="s",
        command=["echo", text],
        cwd=text,
        agent_note=text,
        error=text,
        stdout_tail=text,
        exit_code=None,
    )


def _add_letter(database: Database, layout: Layout) -> None:
    intake, dead, shard = Intake(database, layout), DeadLetters(database, layout), layout.shard(1)
    for name in SHOWN:
        raw = HOSTILE[name].encode("utf-8", "replace")
        database.command("XADD", stream_of(shard, Family.EVENTS), "*", "m", raw)
        lease = intake.take_lease(shard, Family.EVENTS, 5)
        assert lease is not None
        (entry,) = read_new(intake, lease, 1)
        dead.add(lease, RawEntry(entry.id, entry.raw, 1), raw.decode())
        intake.release(lease)


LISTS: Final = [
    ["records", "--file", "records.jsonl"],
    ["records", "--file", "records.jsonl", "--failed"],
    ["gate", "--file", "records.jsonl"],
    ["turns"],
    ["turns", "--overdue"],
    ["outbox"],
    ["dead", "list"],
    ["history", SESSION],
    ["stats"],
    ["stats", "--session", SESSION],
    ["stats", "--bank", BANK],
    ["bank"],
    ["bank", BANK, "--last", "50"],
    ["doctor"],
]
OTHERS: Final = [
    ["stats", "--plot", "-"],
    ["stats", "--bank", BANK, "--plot", "-"],
    ["metrics"],
    ["turns", "--host", SESSION],
    ["records", SESSION],
    ["bank", "no\x1b[2J\u202e"],
    ["dead", "show", "no\x1b[2J\u202e"],
    ["stats", "--bank", "no\x1b[2J\u202e"],
    ["signal", "no\x1b[2J\u202e.jsonl"],
    ["submit", "--timeout", "no\x1b[2J", "ls"],
]


@pytest.mark.parametrize("terminal", [pytest.param(True, marks=pytest.mark.slow), False], ids=["terminal", "pipe"])
def test_nothing_hidden_is_printed(settings: Settings, reported: int, tmp_path: Path, *, terminal: bool) -> None:
    assert reported >= 20, "the host accepts nearly all of it"
    as_json = [[*each, "--json"] for each in LISTS]
    printed = printed_by(settings, [*LISTS, *OTHERS, *as_json], tmp_path, terminal=terminal)
    values: list[dict[str, Any]] = []
    for part in printed.split("==> ")[1:]:
        said = part[:2_000]
        assert marks_in_a_row(part) <= 8, said
        assert "raised" not in part or "raised BadParameter" in part, said
        if "'--json']" in part.partition("\n")[0]:
            assert all(char == "\n" or unicodedata.category(char) == "Zs" for char in hidden(part)), said
            values += [json.loads(line) for line in part.splitlines() if line.startswith("{")]
        else:
            assert hidden(part) <= {"\n"}, said
    assert printed.count("[bold]x[/bold] [/] [link=https://evil.example]y[/link] [red]") > 5, "brackets stay text"
    assert r"\x1b]0;a title\x07text" in printed
    assert {HOSTILE["c1"], HOSTILE["bidi"], HOSTILE["marks"]} <= {value.get("conversation") for value in values}
