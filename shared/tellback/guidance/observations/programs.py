"""Classify the run of a program by its exit code, by the tests that failed, and by what it says of its own work.

What the command was decides how its output is read. The text of a file, a log or a search may speak of any error; the
same words of a compiler are one. An exit of 1 is an answer of `grep`, `diff` and `test`. A program that failed says
nothing about the tool that ran it, so every failure has the code "error". Requirement G-81.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tellback.guidance.footers import without_footer
from tellback.guidance.observations import diagnostics
from tellback.guidance.observations.commands import (
    ABSENT_FOLDER,
    DATABASES,
    FILTERS,
    QUIET,
    SEARCHING,
    answers_by_exit,
    complaint_beside_value,
    is_documented_answer,
    is_not_carried,
    is_reading,
    is_value,
    labels_its_own,
    runs_inline,
    shows_traceback,
    without_closed_pipe,
    without_echoes,
    without_given_lines,
    without_startup,
    writes_out,
)
from tellback.guidance.observations.complaints import complains_only, complaint_line, redis_error
from tellback.guidance.observations.emptiness import name_words
from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.shapes import pointed_line
from tellback.guidance.observations.testruns import count_tests
from tellback.guidance.observations.texts import code_for_report, timeout_in
from tellback.guidance.observations.values import as_list, as_mapping, safe_attribute, value_text
from tellback.guidance.progress.programs import CLIENTS
from tellback.guidance.shell import COMMAND_CHARS, SimpleCommand, joined_command, simple_commands
from tellback.sanitize import without_sequences

_EXITS: Final = ("exit_code", "exitcode", "exitstatus", "exit_status", "returncode", "return_code")
_RUNNING: Final = ("running", "pending", "queued", "started", "in_progress")
# An exit code counts only beside output: `{"exit_code": 3, "name": ...}` may describe a door.
_OUTPUTS: Final = ("stdout", "stderr", "stdout_tail", "stderr_tail", "output", "aggregated_output")

# Where tools put the exit code into a text: mini-swe-agent, Claude Code, Codex, and Gemini CLI at the beginning;
# OpenHands, pi and others at the end. Elsewhere such words are the program's own.
_EXIT_FIRST: Final = re.compile(
    r"\s{0,40}(?:<exception>(?P<stopped>.{0,25000}?)</exception>\s{0,9})?<returncode>(-?\d{1,10})</returncode>"
    r"|\s{0,40}(?:Error: )?\[?[Ee]xit [Cc]ode:? (-?\d{1,10})\b\]?[ \t]*$"
    r"|(?:[^\n]{0,200}\n){0,4}?Process exited with code (-?\d{1,10})$(?:\n(?:Original token count: \d+|Output:)$){0,2}"
    r"|\s{0,40}Command (?:executed|completed|finished|failed) with exit code:? (-?\d{1,10})\b\.?[ \t]*$"  # Cline
    r"|(?:Here are the results[^\n]{0,80}\n)?<return-code>\s{0,3}(-?\d{1,10})\s{0,3}</return-code>"  # Augment
    r"|<(?:retrieval_)?status>.{0,400}?<exit_code>(-?\d{1,10})</exit_code>"
    r"|(?:Command executed in [^\n]{0,300})?(?:Command execution was not successful[^\n]{0,100}\n)?"  # Cline, Roo Code
    r"Exit code: (-?\d{1,10})$",
    re.DOTALL | re.MULTILINE,
)
_EXIT_LAST: Final = re.compile(
    r"^\[?(?:The )?[Cc]ommand (?:finished|exited|completed|failed) with (?:exit )?code (-?\d{1,10})\b"
    r"|^Exit Code: (-?\d{1,10})$|^Exit code:? (-?\d{1,10})\s{0,9}(?:<cwd>[^\n]{0,400}</cwd>\s{0,9})?\Z"  # Crush
    r"|^[\[(][Ee]xit (?:code|status):? (-?\d{1,10})[\])]$"
    r"|^<exited with exit code (-?\d{1,10})>\s{0,9}\Z",  # Copilot CLI
    re.MULTILINE,
)
_SIGNAL_LAST: Final = re.compile(r"^Signal: (?:SIG\w{2,8}|[1-9]\d?)$", re.MULTILINE)  # Gemini CLI
# Above an output, whose first line stands behind the last word.
_HEAD_OF_GEMINI: Final = re.compile(r"Command: .{0,20000}?\nDirectory: [^\n]{0,400}\n(?:Output|Stdout): ", re.DOTALL)
_EXIT_TAIL: Final = 400  # characters; OpenHands adds lines about the folder and the interpreter

_SHELL_NAMES: Final = frozenset(
    ["bash", "sh", "zsh", "shell", "exec", "execute", "terminal", "command", "cmd", "console", "powershell", "process"]
)
_COMMAND_FIELDS: Final = ("command", "cmd", "script", "commands", "shell_command", "CommandLine")
# Beside these a `command` is the verb of an editor, as in `str_replace_editor(command: "view", path: ...)`.
FILE_FIELDS: Final = ("path", "file_path", "filepath", "filename", "target_file", "notebook_path")
_TIMED_OUT: Final = 124  # of `timeout`, and of Codex
_CURL_TIMED_OUT: Final = 28
_REPR: Final = re.compile(r"[A-Z]\w{0,80}\(.{0,400}\)")  # of an exception
# A consumer that closes the pipe early ends the program before it with SIGPIPE; that is no failure of either.
_BROKEN_PIPE: Final = 141


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program's run as the tool reported it. `exit_code` is None if the report names none."""

    commands: tuple[SimpleCommand, ...]
    output: str
    exit_code: int | None = None
    lost: bool = False  # a record whose exit code is null: it proves no success
    stopped: str = ""  # why the tool ended it


def classify_program(evidence: Evidence) -> Finding | None:
    """Classify what a shell or another runner of programs returned; None for any other tool."""
    run = program_run(evidence)
    if run is None:
        return None
    if run.stopped or run.lost:
        return Finding("error", run.stopped.strip() or evidence.message)
    if ran_out := timeout_in(run.output):
        output = run.output.strip()
        return Finding("error", output if output.startswith(ran_out) else f"{ran_out}\n{output}")
    code = _reported_exit(run)
    if code is None or code == 0:
        return _classify_success(run, evidence, known=code == 0)
    if code == _BROKEN_PIPE and any(each.before == "|" for each in run.commands):
        return Finding("ok")
    output = _OUTPUT_MARKS.sub("", run.output)
    name = diagnostics.named_failure(output) or complaint_line(output, run.commands)
    if code == _TIMED_OUT or (code == _CURL_TIMED_OUT and run.commands and run.commands[-1].program == "curl"):
        name = f"The command timed out (exit code {code}). {output}".strip()
    printed = output.strip() if as_mapping(evidence.data) else ""  # and not the record around it
    return _classify_answer(run, code) or Finding("error", name or printed or evidence.message)


def program_run(evidence: Evidence) -> ProgramRun | None:
    """Return the run that a result reports, from a record, or from a text if the tool runs commands."""
    command = command_of(evidence.tool, evidence.params)
    # The end of a command that is too long is not seen, and may be what fails.
    commands = () if command is None or len(command) > COMMAND_CHARS else simple_commands(command)
    record = _run_in_record(evidence, commands)
    if record is not None:
        return record
    text = without_sequences(evidence.error_text or evidence.text)
    if evidence.data is not None and not isinstance(evidence.data, str) and not _EXIT_FIRST.match(text[:200]):
        return None if command is None or evidence.failed else ProgramRun(commands, text, None)
    code, output, stopped = _exit_in_text(text)
    if code is None and (signal := _SIGNAL_LAST.search(text[-_EXIT_TAIL:])):
        stopped = signal.group().strip()
    of_file = any(evidence.params.get(name) for name in FILE_FIELDS)  # whose first lines may be such a report
    if command is None and (code is None or stopped is None or of_file):
        return None
    output = _HEAD_OF_GEMINI.sub("", without_footer(output), count=1)
    if command is not None and text.startswith(f"{command}\n"):  # OpenHands' terminal shows the command first
        output = output.removeprefix(command)
    return ProgramRun(commands, output, code, stopped=stopped or "")


def is_patch(command: object) -> bool:
    """Check whether an argument of Codex's `apply_patch` is a patch, which its hooks call a command."""
    return isinstance(command, str) and command.lstrip().startswith("*** Begin Patch")


def command_of(tool: str, params: Mapping[str, Any]) -> str | None:
    """Return the shell command of a call, or None for a tool that runs none."""
    if any(params.get(name) for name in FILE_FIELDS):
        return None
    value = next((params[name] for name in _COMMAND_FIELDS if params.get(name)), None)
    if isinstance(value, str):
        return None if is_patch(value) else value
    words = [word for word in as_list(value) if isinstance(word, str)]
    if words:
        return joined_command(words)
    return "" if _SHELL_NAMES & set(name_words(tool)) else None


def exit_code_in(text: str) -> int | None:
    """Return the exit code that a tool put at the beginning or the end of its text."""
    return _exit_in_text(text)[0]


def _exit_in_text(text: str) -> tuple[int | None, str, str | None]:
    """Return the exit code, the output without it, and why the tool stopped the program; no reason is "".

    The reason is None for a code that is the tool's own last line only by its words.
    """
    first = _EXIT_FIRST.match(text[:30_000])
    if first is not None:
        number = next(group for group in first.groups()[1:] if group is not None)
        return int(number), text[first.end() :], (first.group("stopped") or "")
    tail = text[-_EXIT_TAIL:]
    found = list(_EXIT_LAST.finditer(tail))
    if not found:
        return None, text, None
    last = found[-1]
    number = next(group for group in last.groups() if group is not None)
    return int(number), text[: len(text) - len(tail) + last.start()], None


def _run_in_record(evidence: Evidence, commands: tuple[SimpleCommand, ...]) -> ProgramRun | None:
    """Return the run of a record with an exit code beside output; Codex has the code in `metadata`."""
    fields = {name.lower(): value for name, value in as_mapping(evidence.data).items()}
    code = safe_attribute(evidence.result, "returncode")  # `subprocess.CompletedProcess`
    if isinstance(code, int):
        fields = {"returncode": code, "stdout": ""}
    found = [place[name] for place in (fields, as_mapping(fields.get("metadata"))) for name in _EXITS if name in place]
    if not found and isinstance(fields.get("interrupted"), bool):  # Claude Code's; another exit is reported as an error
        found = [0]
    if not found or not any(name in fields for name in _OUTPUTS):
        return None
    output = "\n".join(value_text(fields[name]) for name in _OUTPUTS if isinstance(fields.get(name), str))
    output = without_sequences(output)
    if found[0] is None:  # Claude Code's `BashOutput` has none as long as the program runs
        return ProgramRun(commands, output, lost=fields.get("status") not in _RUNNING)
    if not isinstance(found[0], int) or isinstance(found[0], bool):
        return None
    return ProgramRun(commands, output, found[0])


# `docker inspect` prints an empty list above the reason.
_NOTHING_FIRST: Final = re.compile(r"\A\s*(?:\[\]|\{\}|null)\s*\n(?=\S[^\n]*\s*\Z)")

# What tools put around an output, or in the place of none.
_OUTPUT_MARKS: Final = re.compile(r"</?output>|^\(no output\)$", re.MULTILINE)

# `; echo "exit: $?"` hides the code from the shell and prints it.
_PRINTED_EXIT: Final = re.compile(
    r"^\W{0,6}(?:exit|rc|ret\w{0,5}|status|code|result)\b[^\n\d]{0,30}?(\d{1,3})\W{0,4}$", re.MULTILINE | re.IGNORECASE
)


def _reported_exit(run: ProgramRun) -> int | None:
    """Return the exit code, or the one that the command itself printed with `echo $?`."""
    # Several are an experiment with programs that may well fail.
    asking = [each for each in run.commands if any("$?" in word or "PIPESTATUS" in word for word in each.words)]
    asks = len(asking) == 1 and asking[0] is run.commands[-1] and asking[0].program in ("echo", "printf")
    if asks and not run.exit_code and (printed := _PRINTED_EXIT.findall(run.output[-_EXIT_TAIL:])):
        return int(printed[-1])
    return run.exit_code


def _classify_answer(run: ProgramRun, code: int) -> Finding | None:
    """Return the finding of an exit that is an answer, such as that of a `grep` without a match."""
    chain = _last_chain(run.commands)
    if not chain:
        return None
    output = _OUTPUT_MARKS.sub("", run.output)
    # The code that `; echo "exit $?"` prints is the question, and no output of the program.
    quiet = not (_PRINTED_EXIT.sub("", output) if "$?" in " ".join(run.commands[-1].words) else output).strip()
    # 123: of `find ... | xargs grep`, which is 1 for one of several.
    answers = code in (1, 123) and any(answers_by_exit(each) for each in chain)
    harmless = all(is_reading(each) for each in chain)
    # Of several programs an earlier one may have set the code; `cd` would say why.
    if all(each.program in ("cd", "sleep") for each in chain[:-1]) and is_documented_answer(chain[-1], code):
        return Finding("no_results" if quiet else "ok")
    if answers and (quiet or (harmless and not _says_unreadable(run.output))):
        return Finding("no_results" if quiet else "ok")
    # `ls build 2>/dev/null`: who discards the error asks if there is something.
    if quiet and harmless and any(each.silent for each in chain):
        return Finding("no_results")
    return None


def _says_unreadable(output: str) -> bool:
    return any(diagnostics.unreadable_line(line) for line in output.strip().splitlines()[-3:])


def _last_chain(commands: Sequence[SimpleCommand]) -> list[SimpleCommand]:
    """Return the commands of the last list, one of which has set the exit code: those since the last `;`.

    An `echo $?` at the end tells the code of the list before it.
    """
    if len(commands) > 1 and any("$?" in word for word in commands[-1].words):
        commands = commands[:-1]
    start = 0
    for number, each in enumerate(commands):
        if each.before in (";", "&"):
            start = number
    return [each for each in commands[start:] if each.program not in ("echo", "printf") or each.before != "||"]


def _classify_success(run: ProgramRun, evidence: Evidence, *, known: bool) -> Finding | None:
    """Classify a run whose exit is 0 or unknown: the code may be that of `| head`, `|| true` or `; echo done`."""
    output = without_closed_pipe(_OUTPUT_MARKS.sub("", run.output), run.commands)
    output = _NOTHING_FIRST.sub("", without_startup(output, run.commands))
    if any(map(is_reading, run.commands)) and all(is_reading(each) or each.program in QUIET for each in run.commands):
        return _classify_reading(run, output, evidence, known=known)
    counted = count_tests(output) is not None
    if not (evidence.failed or counted) and shows_traceback(run.commands, output):
        return Finding("ok")
    said = _said_failure(run, output, known=known)
    echoed = not evidence.failed and _is_echo(said, run, output, evidence.tool, known=known)
    if echoed:
        said = None
    if said is None and evidence.failed and "\n" in output.strip():  # one line may be of the tool that ran it
        said = evidence.message
    if said is not None:
        return Finding("error", pointed_line(output) or said)
    return Finding("ok") if known or counted or echoed or _is_no_report(output, run.commands) else None


# A shell's own line about a missing program: nothing ran that could have repeated the command.
_OF_SHELL: Final = re.compile(r"\S{0,40}sh: |[\w./-]{1,80}: command not found$")


def _is_echo(said: str | None, run: ProgramRun, output: str, tool: str, *, known: bool) -> bool:
    """Check for an output that reports a failure only in words of its command."""
    if _OF_SHELL.match(said) if said is not None else code_for_report(output, tool) is None:
        return False
    if _is_refused(output, run.commands) and _is_refused(without_given_lines(output, run.commands), run.commands):
        return False  # a summary and a server's refusal, which may repeat less than a line
    heard = without_echoes(output, run.commands)
    return heard != output and _said_failure(run, heard, known=known) is None and code_for_report(heard, tool) is None


def _is_refused(output: str, commands: Sequence[SimpleCommand]) -> bool:
    return bool((counts := count_tests(output)) and counts.bad) or redis_error(output, commands) is not None


def _said_failure(run: ProgramRun, output: str, *, known: bool) -> str | None:
    asks = known and all(each.program in DATABASES for each in run.commands)
    said = diagnostics.failure_in(output, probes=asks or any(each.before == "||" for each in run.commands))
    said = said or redis_error(output, run.commands)
    if said is None and count_tests(output) is None and _hides_exit(run, known=known):
        said = complaint_line(output, run.commands) or diagnostics.start_line(output)
        said = None if said and writes_out(run.commands, said) else said
    return said


def _is_no_report(output: str, commands: Sequence[SimpleCommand]) -> bool:
    """Check for an output that is no report of a failure, however it begins.

    Several lines of a script of one's own may begin with "Error: ..."; a value in quotes or a `repr` may say anything.
    So may what the command itself has written out. The page that a server sent is judged by its own words.
    """
    text = output.strip()
    if not commands or any(each.program in CLIENTS for each in commands):
        return False
    written = text != "" and (writes_out(commands, text) or is_value(text, commands) or runs_inline(commands))
    shown = any(each.program == "json.tool" for each in commands)  # `python -m json.tool report.json`
    several = "\n" in text and (shown or text[:1] != "{")  # an object of JSON is one record, however it is laid out
    return written or several or text[:1] in ('"', "'") or _REPR.fullmatch(text) is not None


def _hides_exit(run: ProgramRun, *, known: bool) -> bool:
    """Check whether the exit code says nothing about a program in the middle, whose failure no `||` handles."""
    operators = {each.before for each in run.commands}
    if any("--exit-zero" in each.words for each in run.commands):  # of linters
        return True
    return "||" not in operators and (not known or bool(operators & {"|", ";"}))


def _classify_reading(run: ProgramRun, output: str, evidence: Evidence, *, known: bool) -> Finding | None:
    text = output.strip()
    if not text:
        searches = any(each.program in SEARCHING or answers_by_exit(each) for each in run.commands)
        return Finding("no_results" if searches else "ok")
    # `cat x || echo none` asked for it, and an exit of 0 that no other command hides is the reader's own word.
    trusted = known and not any(each.before in ("|", ";", "&") for each in run.commands)
    asked = trusted or any(each.before == "||" for each in run.commands)
    line = None if asked else _unreadable_line(text, run.commands)
    given = " ".join(word for each in run.commands for word in each.words).replace('\\"', '"')
    if line is not None and line in given:  # `echo "error: none"`
        line = None
    if line is not None or evidence.failed:
        return Finding("error", pointed_line(text) or line or evidence.message)
    # As of `curl`, the body that is all of an answer may be a refusal.
    return (
        None if evidence.data is not None and len(run.commands) == 1 and _asks_github(run.commands) else Finding("ok")
    )


_OF_GH: Final = re.compile(r"(?:^|(?<=[}\]]))gh: [^\n]{1,300} \(HTTP \d{3}\)$")  # below the body, or right behind it


def _asks_github(commands: Sequence[SimpleCommand]) -> bool:
    return any(each.program == "gh" and each.words[:1] == ("api",) for each in commands)


# What programs without a name in front say of themselves, such as `gh`, and a value of `jq -r` too.
_UNABLE: Final = re.compile(r"(?:no|failed to|could not|unable to) ")


def _unreadable_line(text: str, commands: Sequence[SimpleCommand]) -> str | None:
    """Return the first line if nothing but complaints was printed, in any language."""
    first = text.partition("\n")[0].strip()
    if (own := complaint_beside_value(text, commands)) is not None:
        return own or (first if complains_only(text, commands) else None)
    quiet = tuple(
        f"{each.program}: " if each.program in {"tar", *QUIET, *FILTERS} else f"{each.program}: error: "
        for each in commands
    )
    if first.startswith(quiet) and not first.startswith("tar: Removing "):
        return first
    of_git = first.startswith("fatal: ") and any(each.program == "git" for each in commands)  # advice follows
    # Behind a folder that is not there, what follows was read in another.
    if (text.count("\n") < 8 and complains_only(text, commands)) or of_git or ABSENT_FOLDER.match(first):
        return first
    last = text.rpartition("\n")[2]
    refused = _OF_GH.search(last) if _asks_github(commands) else None
    if refused is not None or (text == last and is_not_carried(first, commands)):
        return refused.group() if refused is not None else last
    if (diagnostics.is_labelled(first) or _UNABLE.match(first)) and not any(
        labels_its_own(each, text) for each in commands
    ):
        return None
    return diagnostics.unreadable_line(text)
