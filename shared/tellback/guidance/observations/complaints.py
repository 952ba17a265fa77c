"""Find the line in which a well-known program says of itself that it could not do its work.

The words of such a line are of any language and any program, so its form decides, together with the command: utilities
put their own name first ("cp: ..."), tools such as `terraform` a label ("Error: ..."), linters a place in a file. What
a script of the agent's own prints in the same form may be what an experiment was to show, and does not count.
Requirement G-81.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tellback.guidance.observations.commands import (
    answers_by_exit,
    is_reading,
    run_elsewhere,
    runs_inline,
    uncommitted_line,
)
from tellback.guidance.observations.diagnostics import ERROR_WORDS, finding_line, is_labelled
from tellback.guidance.observations.shapes import counts_none, is_document, shape_line
from tellback.guidance.observations.stored_values import REDIS_REFUSED, own_complaints
from tellback.guidance.progress.effects import words_in
from tellback.guidance.shell import SimpleCommand

# They print their own name only to complain, as all do that only show what is there. Not `make`, `go`, `tar`, `gpg` and
# `rsync`, which report progress so.
_UTILITIES: Final = words_in(
    "chgrp chmod chown cp curl egrep fgrep getent git grep groupadd gunzip gzip install ip kill ln mawk mkdir mktemp"
    " mount mv nohup openssl patch paste pip3 psql python python3 rm rmdir scp sed ssh su sudo systemctl timeout touch"
    " truncate umount unshare unzip useradd wget xargs zip"
)

_CMDLET: Final = re.compile(r"[A-Z]\w{1,20}-[A-Z]\w{1,40}$")  # PowerShell's
# `simple_commands` leaves them out.
_AROUND: Final = words_in("sudo timeout xargs env nohup nice stdbuf")

# Programs of others that report on their own work. Not what runs or shows something else: `docker logs`, `gh run view`.
_TOOLS: Final = words_in(
    "ansible ansible-playbook apk apt apt-get aws az bazel black bower brew buildah bun bundle cargo cdk cmake"
    " composer conda coverage dnf docker docker-compose dotnet dpkg eslint esbuild flutter gcloud gem git go gradle"
    " gradlew gsutil helm hg isort jest kubectl lerna mamba meson minikube mix mvn mvnw mysql next npm nx pdm php pip"
    " pip3 pnpm podman poetry prettier prisma psql pulumi rails rake rollup rustc rustup sass sbt serverless sqlite3"
    " svn swift tea terraform tofu tsc turbo uv uvx vagrant vault vite webpack yarn yum mariadb"
)
# What they print are the words of others: of the agent's code, a recipe, a page, a table, a history, another machine.
_PASSING_ON: Final = words_in(
    "python python2 python3 pypy3 ipython node deno bun ruby irb perl php lua julia java Rscript bash sh zsh fish su"
    " make gmake just ninja rake npx tsx ts-node tox nox pytest ctest env time watch parallel xargs eval expect"
    " curl wget http https xh lynx w3m ssh tmux screen script mysql mariadb psql sqlite3 redis-cli mongosh duckdb"
    " pandoc groff base64 iconv gzip gunzip pdftotext html2text git"
)
_LISTING: Final = words_in(
    "get list ls search info view status help --help -h events output diff history explain --explain"
)
_NAME: Final = re.compile(r"[A-Za-z][\w.+-]+$")
_SEARCHES: Final = words_in("get search logs log cat api history help --help -h")  # a value, a log's line, or no result
_OF_OTHERS: Final = words_in("logs logging log attach cat describe inspect show api")
_RUNNING: Final = words_in("npm yarn pnpm bun cargo docker podman kubectl go dotnet swift deno uv poetry mvn mise")
_RUNS: Final = words_in("run exec start dev")
_SHOWING: Final = _OF_OTHERS | _RUNS | {"test", "--explain", "explain"}
_SHOWS_FILES: Final = words_in("cat bat less more nl tac")
_BUILDERS: Final = words_in("make gmake just ninja rake tox nox xargs time env parallel")

_INSTALLED: Final = re.compile(
    r"(?:vendor/bin|node_modules/\.bin|venv/bin|/usr(?:/\w{1,20}){1,2}|/opt/[\w./-]{1,80})/?$"
)

_LINTERS: Final = words_in(
    "ansible-lint bandit codespell cpplint flake8 golangci-lint hadolint htmlhint luacheck markdownlint mdl pycodestyle"
    " pydocstyle pyflakes pylint revive ruff shellcheck standard staticcheck stylelint tflint vulture xo yamllint"
)
# A word for an error, at the beginning of a line or in a frame; after it a place or a code, then the colon. A title in
# a history of git stands behind its hash.
_LABELLED: Final = re.compile(
    rf"^(?![0-9a-f]{{7,40}} )(?:[^\w\s\"']{{1,3}} ?)?(?:[\w.-]{{1,20}}:? ){{0,2}}"
    rf"(?:failed|failure|(?-i:[A-Z]\w{{1,60}})(?:error|exception)|{ERROR_WORDS})\b\]?"
    r"(?:\[[^\]\n]{1,30}\]|\([^)\n]{1,40}\)| [^:\n]{1,120})?\s?[:\uff1a] {0,4}\S[^\n]{0,300}$"
    r"|^\[(?:error|fatal)\] \w[^\n]{1,300}"
    r"|^ERROR \d{1,5} \(\w{5}\)[^\n]{1,300}|^An error occurred \([^)\n]{1,80}\) when calling [^\n]{1,200}",
    re.MULTILINE | re.IGNORECASE,
)
_RESOLVED: Final = "pip's dependency resolver does not"  # of a conflict beside what it installed
# Counts and settings are labelled alike ("Failed: 0", "error: null").
_NO_FAILURE: Final = re.compile(
    rf"^[^:\uff1a]*[:\uff1a]\W*(?:0|none|null|false|no|off)?\W*$|\bwarn|{_RESOLVED}", re.IGNORECASE
)

# Sentences of tools that have no label.
_SAID: Final = re.compile(
    r"^(?:(?:fish: )?Unknown (?:sub)?command: ['\w][^\n]{1,200}"
    r"|(?:[\w.-]{1,40}: )?(?:unknown|invalid|unrecognized|missing) [^\n]{1,200}(?=\n{1,2}[Uu]sage: )"
    r"|The connection to the server [^\n]{1,200} was refused"
    r"|Could not find (?:gem|a matching version|a version|command|proper version)[^\n]{0,200}"
    r"| {1,4}[\u00d7x] \w[^\n]{1,300}(?=\n {1,4}(?:help: |[\u2502\u251c\u2570|`]))"  # of Rust: uv, pnpm
    r"|error: [^\n]{1,300}(?=\n{1,2} {0,4}(?:help|tip|note|hint|[Uu]sage): )"
    r"|go: (?!downloading|finding|extracting|added|upgraded|downgraded"
    r"|removed|creating|to add|found|warning)[^\n]{1,300}"
    r"|[^\n]{1,80} : (?:The term|Le terme|Die Benennung|El t\u00e9rmino|O termo|Il termine)\b[^\n]{1,300}"
    r"|[^\n]{1,300}$(?=\nAt [^\n]{1,300}:\d+ char:\d+$)|\s{0,8}\+ CategoryInfo {1,20}: [^\n]{1,200}"  # PowerShell
    r"|Der Befehl \"[^\"\n]{1,100}\" ist entweder falsch geschrieben[^\n]{0,80}"
    r"|(?:\[?sudo\]?:? )?[^\n]{0,40}a password is required$|psql:[^\s:]{1,300}:\d+: (?:ERROR|FATAL): [^\n]{1,300}"
    r"|\w{1,40} has no command named \"[^\"\n]{1,80}\"[^\n]{0,80}"  # Terraform and its kin
    r"|(?<=--help' for help\.\n\n)Error: ?\n?[^\n]{1,300}"  # Click
    r"|nginx: \[(?:emerg|alert)\] [^\n]{1,300}|Could not connect to Redis at [^\n]{1,200}"
    r"|No stash entries found\.$|Aborting commit due to empty commit message\.$|zip error: [^\n]{1,200}"
    r"|error: (?:Justfile does not contain recipes?|No justfile found|Recipe `[^`\n]{1,80}` failed)[^\n]{0,200}"
    r"|WARNING: Package\(s\) not found: [^\n]{1,200}|Invalid command '[^'\n]{1,60}'; type \"help\"[^\n]{0,40}"
    r"|Unable to locate credentials\b[^\n]{0,200}|ERROR: \(gcloud\.[^)\n]{1,120}\) [^\n]{1,300}"
    r"|\([A-Z]\w{3,60}\) [^\n]{1,300}$(?=\nCode: )|error: Script not found [^\n]{1,100}"  # Azure; Bun
    r"|(?:[\d:]{8}  )?(?:Compilation|Database|Runtime|Parsing) Error\b[^\n]{0,200}\n {2}[^\n]{1,300}"  # dbt
    r"|can't find (?:session|window|pane|client): \S{1,80}$|no server running on /\S{1,200}$"  # tmux
    r"|duplicate session: \S{1,80}$|No value found at \S{1,200}$|(?:ERROR: )?Please run '\w{1,20} login' [^\n]{0,100}"
    r"|Code: \d{1,4}\. DB::(?:\w{3,10})?Exception: [^\n]{1,300}"  # ClickHouse
    r"|(?:Binder|Catalog|Parser|Conversion|Constraint|Invalid Input|Out of Range|IO) Error:\s[^\n]{1,300}"  # DuckDB
    r"|Host key verification failed\.?|Waiter \w{1,60} failed: [^\n]{1,200})",
    re.MULTILINE,
)

# A sentence without a label, such as "Could not locate Gemfile".
_UNABLE: Final = re.compile(
    r"(?:[^\s,]{1,80}[ ,]{1,2}){0,10}?(?:(?:could not|couldn't|cannot|can't|unable to|there is no"
    r"|is (?:invalid|not (?:an?|allowed|installed|permitted|recogni[sz]ed|supported|valid))"
    r"|do(?:es)? not (?:exist|contain)|no such|must be installed|has not been|not found)\b"
    r"|abort(?:ed|ing)?(?:[:!]| with\b| due\b)|failed(?:[.!]?$|:| to\b)"
    r"|un(?:known|expected) (?:command|option|flag|argument)\b|unrecogni[sz]ed\b|not recogni[sz]ed\b)"
    # "Unknown unit 'm'", "conformability error": they begin or are the line.
    r"|(?:unknown|undefined|unsupported|duplicate|invalid) \w{2,40}(?:$|:| [\"'`\u2018])"
    r"|(?!no )(?:[a-z]{3,20} ){1,3}error[.!]?$",
    re.IGNORECASE,
)
_NOTED: Final = re.compile(
    r"(?:\S{1,20} ){0,2}\W?(?:warn|note|notice|info|hint|debug)|W: |debconf: |-- ",  # CMake's
    re.IGNORECASE,
)
# A test that passed, or work that goes on without what is absent: `NOTICE: ... does not exist, skipping`.
_GOES_ON: Final = re.compile(
    r"ok \d|[\u2713\u2714]|.*\b(?:skipp(?:ing|ed)|ignor(?:ing|ed)|proceeding|nothing to do|creat(?:ing|ed))\b",
    re.IGNORECASE,
)
_SENTENCE_LINES: Final = 20
_LABEL_LINES: Final = 3
_NAMED_CHARS: Final = 300
_QUOTED: Final = re.compile(
    r"(?:\w{0,4}sh: (?:[^\s:]{1,20} \d+: )?|[\"'\u00ab\u201e])([\w.+-]{1,60})[:\"'\u00bb\u201c] ?\S[^\n]{4,200}"
)
_REPORTING: Final = words_in("make gmake go tar gpg rsync nginx avrdude")  # they report progress behind their name
_WENT_WELL: Final = re.compile(
    r"\b(?:ok|success\w*|successful\w*|done|complete\w*|passed|finished|up[ -]to[ -]date|nothing|already|installed"
    r"|no (?:errors?|issues?|problems?|changes?|warnings?)|created|updated|removed|written|wrote|warn(?:ing)?|note|info"
    r"|downloading|version)\b|^\S+: {0,2}[\d.v]+$",
    re.IGNORECASE,
)

_END: Final = 4_000  # characters, and lines, in which a complaint is sought
_LAST_LINES: Final = 6

_ADVICE: Final = re.compile(
    r"\s{0,40}(?:(?:\S{1,40}: )?[Tt]ry '[^'\n]{1,100}'(?: or '[^'\n]{1,100}')? for more"
    r"|[Uu]sage: |\(.{0,80}\)$|\W{1,600}$)"
)
_WARNING: Final = re.compile(
    r"\W*(?:line \d+: )?(?:warning|note|info|hint|Warnung|avertissement|advertencia|attenzione|aviso)\b\s?:",
    re.IGNORECASE,
)


def complaint_line(output: str, commands: Sequence[SimpleCommand]) -> str | None:
    """Return the line in which one of the commands says that it failed, if its exit code does not show it."""
    if counts_none(output.rstrip().rpartition("\n")[2]):
        return None
    said = (
        _own_complaint(output, _names(commands))
        or _said_by_tool(output, commands)
        or _finding_of_linter(output, commands)
    )
    working = [each for each in commands if not is_reading(each)]
    said = said or _names_argument(output, working)
    if said is not None or not working or any(map(answers_by_exit, commands)) or is_document(output):
        return said
    if any(_shows_other(each, commands) for each in commands):
        return None
    said = _whole_sentence(output, working)
    return said or (None if runs_inline(commands) else _shaped(output, working))


_ABSENT: Final = re.compile(
    r"\b(?:no such|not (?:be )?found|(?:does not|doesn't) exist|no [^\n\"]{1,60}\"[^\n\"]{1,80}\" found)\b",
    re.IGNORECASE,
)


def _names_argument(output: str, working: Sequence[SimpleCommand]) -> str | None:
    """Return an output of one line that says that something is absent, and names an argument of the command.

    A program of any name and verb says so of what it was given: "Device "eth9" does not exist.". A script of the
    agent's own may print it as an answer; an interpreter puts its name in front.
    """
    line = output.strip()
    name, _, reason = line.partition(": ")
    if "\n" in line or len(line) > _NAMED_CHARS or len(working) != 1:
        return None
    only = working[0]
    if " " in name and name in only.words and _SYSTEM_CALL.match(f"_: {reason}"):  # "my cart: Permission denied"
        return line
    if not _ABSENT.search(line):
        return None
    if _SEARCHES & set(only.words[:3]) or (_is_own(only) and not line.startswith(f"{only.program}: ")):
        return None
    named = set(re.split(r"[^\w./@:-]+", line.rstrip(".")))
    named |= {word.rpartition(".")[0] for word in named}  # `nginx.service`
    given = any(word in named for word in only.words if len(word) > 2 and not word.startswith("-"))
    return line if given and not (_NOTED.match(line) or _GOES_ON.match(line)) else None


def _shows_other(command: SimpleCommand, commands: Sequence[SimpleCommand]) -> bool:
    """Check for a command such as `; cat notes.md`, unless it shows what another one has written there."""
    shows = command.program in _SHOWS_FILES and command.before != "|"
    written = {name for each in commands for name in each.writes_to}
    return shows and not written.intersection(command.words)


def _shaped(output: str, working: Sequence[SimpleCommand]) -> str | None:
    if any((_LISTING | _OF_OTHERS) & set(each.words[:3]) for each in working):
        return _named_itself(output, working)
    own = any(map(_is_own, working))
    line = _not_started(output, working) or shape_line(output, own=own)
    line = line or (None if own else _named_itself(output, working))
    return None if line is None or _RESOLVED in line else line


def _not_started(output: str, working: Sequence[SimpleCommand]) -> str | None:
    """Return the line in which a shell names a program that it does not find, in quotes or behind its own name."""
    quoted = _QUOTED.match(output.lstrip()[:_NAMED_CHARS])
    return quoted.group() if quoted is not None and quoted[1] in {each.program for each in working} else None


def _is_own(command: SimpleCommand) -> bool:
    """Check for a command that may show what code of the agent's own prints."""
    runs = command.program in _RUNNING and bool(_RUNS & set(command.words[:3]))
    passes = command.program in _PASSING_ON - _BUILDERS
    return runs or passes or not _is_installed(command) or _NAME.match(command.program) is None


def _is_installed(command: SimpleCommand) -> bool:
    return not command.folder or _INSTALLED.search(command.folder) is not None


def _named_itself(output: str, working: Sequence[SimpleCommand]) -> str | None:
    """Return the last or first line if a program begins it, and no other, with its own name, as it does to complain."""
    text = output.strip()
    programs = {each.program for each in working} - _REPORTING
    first, last = text.partition("\n")[0], text.rpartition("\n")[2]
    for line in (last, first) if _UNABLE.match(first[:_NAMED_CHARS]) else (last,):  # it may tell what begins
        name, colon, said = line.partition(": ")
        named = colon and said and " " not in name and any(name.startswith(each) for each in programs)
        speaks = any(line.casefold().startswith(f"{each} could not ") for each in programs)  # Poetry
        if (named or speaks) and len(output) <= _END and len(line) <= _NAMED_CHARS and not _WENT_WELL.search(line):
            return line if speaks or text.count(f"{name}:") == 1 else None
    return None


# csvkit complains by the name of an exception alone; of a table there is a head too, so it has two lines.
_OF_CSVKIT: Final = re.compile(r"[A-Z]\w{1,60}(?:Error|Exception): ")


def complains_only(output: str, commands: Sequence[SimpleCommand]) -> bool:
    """Check for an output that has nothing but complaints of utilities among the commands, and what they quote."""
    names = _names(commands)
    lines = [line[:600] for line in output[: _END + 1].splitlines() if line.strip()]
    rest = [line for line in lines if not _is_complaint(line, names)]
    if len(lines) == 1 and _OF_CSVKIT.match(lines[0]) and any(each.program.startswith("csv") for each in commands):
        return True
    if len(output) > _END or len(rest) == len(lines):
        return False
    # What they quote stands in between; ripgrep ends with a label alone.
    framed = _is_complaint(lines[0], names) and (_is_complaint(lines[-1], names) or is_labelled(lines[-1]))
    return framed or all(map(_ADVICE.match, rest))


def _names(commands: Iterable[SimpleCommand]) -> frozenset[str]:
    own = (each for each in commands if each.program in _UTILITIES or _CMDLET.match(each.program) or is_reading(each))
    return _AROUND.union(each.program for each in own)


_PROGRESS: Final = re.compile(r" (?:created|creating|removing) directory,? ['\u2018]")


def _is_complaint(line: str, names: frozenset[str]) -> bool:
    name, colon, said = line.strip().partition(":")
    # Of `grep`, which does not show the line, and of `mkdir -v` and its kin.
    answers = _WARNING.match(said) or said.endswith(": binary file matches") or _PROGRESS.match(said)
    # "timeout: 30" is a setting: a complaint has two words.
    return bool(colon) and name.rpartition("/")[2].strip() in names and " " in said.strip() and not answers


# How a system call failed, as any program says it behind its own name.
_SYSTEM_CALL: Final = re.compile(
    r"(?:(?:[\w.+-]{1,40}|(?:Failed|Unable|Could not|Cannot)\b[^\n:]{1,80}): [^\n]{0,400}"
    # Without a name in front, as of tmux "error connecting to ... (", and of wget "Connecting to ... failed: ".
    r"|error [a-z]{2,20}ing [^\n]{1,200} \(|[A-Z][^\n]{1,200}\.{3} ?failed: )(?:No such file or directory"
    r"|No such (?:process|device(?: or address)?)|Not a directory|Is a directory|File exists|File name too long"
    r"|Directory not empty|Permission denied|Operation not permitted|Connection (?:refused|timed out|reset by peer)"
    r"|No space left on device|Cannot allocate memory|Read-only file system|Too many (?:open files|levels of symbolic"
    r" links)|Argument list too long|Address already in use|Host is down|No route to host|Network is unreachable"
    r"|Name or service not known|Device or resource busy|Text file busy|Exec format error|Input/output error"
    r"|Bad file descriptor|Invalid (?:argument|cross-device link)|Resource temporarily unavailable)[).]?$"
)


def _own_complaint(output: str, names: frozenset[str]) -> str | None:
    """Return the complaint of a utility that ends the output; before more output it was about one file of several."""
    lines = [line.strip()[:600] for line in output[-_END:].splitlines() if line.strip()][-_LAST_LINES:]
    while len(lines) > 1 and _ADVICE.match(lines[-1]):
        lines.pop()
    if not lines or not (_is_complaint(lines[-1], names) or _SYSTEM_CALL.match(lines[-1])):
        return None
    # "gpg: decrypt_message failed: ..." passes on what stands above it.
    above = lines[-2] if len(lines) > 1 and " failed: " in lines[-1] else ""
    return above if above and above.partition(": ")[0] == lines[-1].partition(": ")[0] else lines[-1]


def _said_by_tool(output: str, commands: Sequence[SimpleCommand]) -> str | None:
    said = _SAID.search(output)
    if said is not None:
        return said.group().strip()
    if (uncommitted := uncommitted_line(output, commands)) is not None:
        return uncommitted
    if not any(each.program in _TOOLS and not _SHOWING & set(each.words[:3]) for each in commands):
        return None
    labelled = (match.group().strip() for match in _LABELLED.finditer(output))
    return next((line for line in labelled if not _NO_FAILURE.search(line)), None)


def _whole_sentence(output: str, working: Sequence[SimpleCommand]) -> str | None:
    """Return the first or last line of a short output if any program says there that something was not possible."""
    if len(output) > _END or any(
        not _is_installed(each)
        or each.program in _PASSING_ON
        or (_OF_OTHERS | _LISTING | {"test"}) & set(each.words[:3])
        or (each.program in _RUNNING and _RUNS & set(each.words[:3]))
        or _NAME.match(each.program) is None
        for each in working
    ):
        return None
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines or len(lines) > _SENTENCE_LINES:
        return None
    ends = (lines[0], lines[-1], *lines[-_LABEL_LINES:-1])
    said = (line for n, line in enumerate(ends) if (n < 2 and _UNABLE.match(line[:300])) or _LABELLED.match(line[:600]))
    return next(
        (
            line
            for line in said
            if not (_NOTED.match(line) or _GOES_ON.match(line) or _NO_FAILURE.search(line) or counts_none(line))
        ),
        None,
    )


def _finding_of_linter(output: str, commands: Sequence[SimpleCommand]) -> str | None:
    if not any(each.program in _LINTERS and not {"--fix", "format", "--help"} & set(each.words) for each in commands):
        return None
    return finding_line(output)


_REDIS_CLIENTS: Final = words_in("redis-cli valkey-cli keydb-cli")
# They exit with 0 after an error, which they print without "(error)" into a pipe. The server begins each with a word
# in capitals.
_NOT_DONE: Final = re.compile(
    rf"(?:\(error\) )?({REDIS_REFUSED}|(?:ERR [^\n]|NO(?:SCRIPT No|GROUP No|REPLICAS )|READONLY You|OOM command"
    r"|MISCONF Redis|BUSYGROUP |BUSYKEY |EXECABORT Trans)[^\n]{0,300})"
)
_OF_PASSWORD: Final = re.compile(r"Warning: Using a password with [^\n]{1,120}\n")


def redis_error(output: str, commands: Sequence[SimpleCommand]) -> str | None:
    """Return the error that a server of Redis answered with, the first of them if it was asked several things."""
    asked = [each for command in commands for each in run_elsewhere(command) or (command,)]
    clients = [each for each in asked if each.program in _REDIS_CLIENTS]
    others = [n for n, each in enumerate(asked) if each not in clients]
    if not clients or any("|" not in {each.before for each in asked[n : n + 2]} for n in others):
        return None
    text = _OF_PASSWORD.sub("", output, count=1).lstrip()
    reads = next((own for each in clients if (own := own_complaints(each)) is not None), _NOT_DONE)
    found = reads.match(text)
    return None if found is None else found.group().removeprefix("(error) ").strip()
