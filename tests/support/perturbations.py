"""Stuck stretches and healthy twins in the formats of many programs, with noise: drawn at random, by a seed.

A way to be stuck is a function of a `Scene`, which draws names, numbers, the program's tools, the runner's output and
calls of other work. It returns the calls of the stretch, and the index of the call at which a reader has seen enough.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support import dialects
from tests.support.dialects import MadeCall, Shell
from tests.support.runners import RUNNERS, Failure

NOUNS: Final = (
    "ledger",
    "parcel",
    "tariff",
    "voyage",
    "beacon",
    "orchard",
    "ticket",
    "harbor",
    "quota",
    "canvas",
    "relay",
    "meadow",
    "signal",
    "cellar",
    "invoice",
)
VERBS: Final = ("merge", "split", "rotate", "expand", "settle", "parse", "render", "dispatch", "collect", "resolve")


@dataclass(frozen=True)
class Tools:
    """The tools of one program: its shell, and what it reads, searches and edits files with."""

    name: str
    shell: Shell | None
    read: Callable[[str, int, str], MadeCall]
    search: Callable[[str, str], MadeCall]
    edit: Callable[[str, str, str], MadeCall]


def _sed_read(shell: Shell) -> Callable[[str, int, str], MadeCall]:
    return lambda path, first, text: shell(f"sed -n '{first},{first + text.count(chr(10))}p' {path}", text)


def _grep(shell: Shell) -> Callable[[str, str], MadeCall]:
    return lambda words, found: shell(f"grep -rn '{words}' src/", found, 0 if found else 1)


def _script_edit(shell: Shell) -> Callable[[str, str, str], MadeCall]:
    def edit(path: str, old: str, new: str) -> MadeCall:
        code = f"s = open('{path}').read()\ns = s.replace({old!r}, {new!r})\nopen('{path}', 'w').write(s)"
        return shell(f"python - <<'EOF'\n{code}\nEOF")

    return edit


def _sed_edit(shell: Shell) -> Callable[[str, str, str], MadeCall]:
    return lambda path, old, new: shell(f"sed -i 's/{old}/{new}/' {path}")


def _numbered(first: int, text: str, gap: str) -> str:
    return "\n".join(f"{n:6}{gap}{line}" for n, line in enumerate(text.split("\n"), first))


def _str_replace(path: str, old: str, new: str) -> MadeCall:
    params: dict[str, object] = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
    shown = f"Here's the result of running `cat -n` on a snippet of {path}:\n     9\t{new}"
    return "str_replace_editor", params, f"The file {path} has been edited. {shown}\nReview the changes."


def _editor_view(path: str, first: int, text: str) -> MadeCall:
    params: dict[str, object] = {"command": "view", "path": path, "view_range": [first, first + text.count("\n")]}
    shown = _numbered(first, text, "\t")
    return "str_replace_editor", params, f"Here's the result of running `cat -n` on {path}:\n{shown}"


def _claude_read(path: str, first: int, text: str) -> MadeCall:
    params: dict[str, object] = {"file_path": path, "offset": first, "limit": 1 + text.count("\n")}
    return "Read", params, _numbered(first, text, "→")


def _claude_edit(path: str, old: str, new: str) -> MadeCall:
    params: dict[str, object] = {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}
    return "Edit", params, f"The file {path} has been updated successfully."


def _pi_edit(path: str, old: str, new: str) -> MadeCall:
    params: dict[str, object] = {"path": path, "oldText": old, "newText": new}
    return "edit", params, f"Successfully replaced text in {path}. Changed {len(old)} characters to {len(new)}."


def _codex_patch(path: str, old: str, new: str) -> MadeCall:
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch"
    return "apply_patch", {"input": patch}, f"Success. Updated the following files:\nM {path}"


def _moatless_view(path: str, first: int, text: str) -> MadeCall:
    span: dict[str, object] = {
        "file_path": path,
        "start_line": first,
        "end_line": first + text.count("\n"),
        "span_ids": [],
    }
    return (
        "ViewCode",
        {"files": [span]},
        f"Here's the contents of the requested code spans:\n{path}\n```\n{_numbered(first, text, chr(9))}\n```",
    )


def _moatless_edit(path: str, old: str, new: str) -> MadeCall:
    params: dict[str, object] = {"path": path, "old_str": old, "new_str": new}
    return "StringReplace", params, f"The file {path} has been edited.\n```\n     9\t{new}\n```"


def _moatless_find(words: str, found: str) -> MadeCall:
    return "FindCodeSnippet", {"code_snippet": words}, found or "No search results found"


def _gemini_edit(path: str, old: str, new: str) -> MadeCall:
    params: dict[str, object] = {"file_path": path, "old_string": old, "new_string": new, "instruction": f"Use {new}"}
    return "replace", params, f"Successfully modified file: {path} (1 replacements)."


def _unknown_edit(path: str, old: str, new: str) -> MadeCall:
    return "fs_replace_text", {"filename": path, "find": old, "replace": new}, '{"ok": true, "replacements": 1}'


def _unknown_shell(command: str, said: str = "", code: int = 0) -> MadeCall:
    result = {"status": "completed", "exitCode": code, "stdout": said, "stderr": "", "durationMs": 90 + len(said)}
    return "run_in_sandbox", {"cmd": command, "timeoutMs": 60_000}, json.dumps(result)


def _bash_plain(command: str, said: str = "", code: int = 0) -> MadeCall:
    return "bash", {"command": command}, said + (f"\n\nCommand exited with code {code}" if code else "")


PROGRAMS: Final = (
    Tools(
        "claude code",
        dialects.claude_code,
        _claude_read,
        lambda words, found: (
            "Grep",
            {"pattern": words, "path": "/r/src", "output_mode": "content"},
            found or "No matches found",
        ),
        _claude_edit,
    ),
    Tools("swe-agent", dialects.swe_agent, _editor_view, _grep(dialects.swe_agent), _str_replace),
    Tools("openhands", dialects.openhands, _editor_view, _grep(dialects.openhands), _str_replace),
    Tools(
        "mini, sed",
        dialects.mini_swe_agent,
        _sed_read(dialects.mini_swe_agent),
        _grep(dialects.mini_swe_agent),
        _sed_edit(dialects.mini_swe_agent),
    ),
    Tools(
        "mini, scripts",
        dialects.mini_swe_agent,
        _sed_read(dialects.mini_swe_agent),
        _grep(dialects.mini_swe_agent),
        _script_edit(dialects.mini_swe_agent),
    ),
    Tools("moatless", None, _moatless_view, _moatless_find, _moatless_edit),
    Tools("codex", dialects.codex_exec, _sed_read(dialects.codex_exec), _grep(dialects.codex_exec), _codex_patch),
    Tools(
        "pi",
        _bash_plain,
        lambda path, first, text: ("read", {"path": path, "offset": first, "limit": 1 + text.count("\n")}, text),
        _grep(_bash_plain),
        _pi_edit,
    ),
    Tools(
        "gemini",
        dialects.gemini_cli,
        lambda path, first, text: (
            "read_file",
            {"absolute_path": path, "offset": first, "limit": 1 + text.count("\n")},
            text,
        ),
        lambda words, found: ("search_file_content", {"pattern": words}, found or f'No matches found for "{words}".'),
        _gemini_edit,
    ),
    Tools(
        "unknown",
        _unknown_shell,
        lambda path, first, text: (
            "fs_read",
            {"filename": path, "fromLine": first, "toLine": first + text.count("\n")},
            json.dumps({"content": text}),
        ),
        lambda words, found: ("search_code", {"query": words}, json.dumps({"matches": [found] if found else []})),
        _unknown_edit,
    ),
)


class Scene:
    """The source of one stretch: a program, a runner, names, and a share of calls of other work."""

    def __init__(self, tools: Tools, runner: str, seed: int, noise: float = 0.3) -> None:
        self.tools, self.runner, self.noise = tools, runner, noise
        self.random = random.Random(f"{tools.name} {runner} {seed}")
        self.shift, self.varies, self.edited = 0, True, False

    def shell(self, command: str, said: str = "", code: int = 0) -> MadeCall:
        """Run a command; a program without a shell asks a server's."""
        return (self.tools.shell or dialects.cline)(command, said, code)

    def hex(self) -> str:
        return f"c4{self.number(1 << 20, 1 << 24):06x}"

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def draw(self, of: Sequence[str]) -> str:
        return self.random.choice(of)

    def form(self, of: Sequence[str]) -> str:
        """Return a form of the command that runs the tests, which agents change as they like."""
        return self.draw(of) if self.varies else of[0]

    def seconds(self) -> str:
        return f"{self.random.uniform(0.02, 9):.2f}"

    def clock(self) -> str:
        return (
            f"2026-03-{self.number(1, 28):02} {self.number(0, 23):02}:{self.number(0, 59):02}:{self.number(0, 59):02}"
        )

    def name(self) -> str:
        return f"{self.draw(VERBS)}_{self.draw(NOUNS)}_{self.number(2, 99)}"

    def path(self) -> str:
        return f"/r/src/{self.draw(NOUNS)}/{self.name()}.py"

    def failures(self, count: int) -> list[Failure]:
        return [self.failure() for _ in range(count)]

    def failure(self) -> Failure:
        said = f"{self.draw(VERBS)} returned {self.draw(NOUNS)} where {self.draw(NOUNS)} {self.number(3, 999)} was due"
        return Failure(f"test_{self.name()}", f"tests/test_{self.draw(NOUNS)}.py", self.number(20, 400), said)

    def run(self, failures: Sequence[Failure], passed: int = 14) -> MadeCall:
        """Run the tests; lines that move, times and colours differ from run to run."""
        self.shift += self.number(0, 4) if self.edited else 0
        moved = [each._replace(line=each.line + self.shift) for each in failures]
        command, said = RUNNERS[self.runner](self, moved, passed)
        if self.tools.shell is None:
            counted = f"{passed} passed. {len(failures)} failed. 0 errors." if failures else f"{passed} passed."
            return "RunTests", {"test_files": ["tests/test_app.py"]}, f"{said}\n{counted}"
        if self.random.random() < 0.3:
            said = said.replace("FAILED", "\x1b[31mFAILED\x1b[0m").replace("Error:", "\x1b[1mError:\x1b[0m")
        prefix = self.draw(["", "", "cd /r && "])
        suffix = self.draw(["", "", " 2>&1", "" if self.runner == "own words" else " 2>&1 | tail -40"])
        code = 0 if "tail" in suffix or not failures else 1
        return self.tools.shell(f"{prefix}{command}{suffix}", said, code)

    def edit(self, path: str = "", old: str = "", new: str = "") -> MadeCall:
        self.edited = True
        return self.tools.edit(path or self.path(), old or self.name(), new or self.name())

    def text(self, lines: int = 9) -> str:
        return "\n".join(f"    {self.name()} = {self.name()}({self.number(1, 9999)})" for _ in range(lines))

    def read_something(self) -> MadeCall:
        """Read or find something new, which has nothing to do with the stretch."""
        if self.random.random() < 0.6:
            return self.tools.read(self.path(), self.number(1, 300), self.text())
        return self.tools.search(self.name(), f"{self.path()}:{self.number(1, 300)}:{self.text(1)}")

    def woven(self, calls: Sequence[MadeCall], enough: int = 0) -> tuple[list[MadeCall], int]:
        """Return the calls behind and between calls of other work, and where call `enough` went."""
        found = [self.read_something() for _ in range(self.number(1, 4))]
        place = 0
        for n, call in enumerate(calls, 1):
            while n > 1 and self.random.random() < self.noise:
                found.append(self.read_something())
            found.append(call)
            place = len(found) if n == enough else place
        return found, place
