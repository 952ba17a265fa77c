"""Classify programs: those that only show what is there, that search, or that answer by their exit code.

Requirement G-81.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from tellback.guidance.observations.stored_values import own_complaints
from tellback.guidance.progress.effects import words_in
from tellback.guidance.progress.git_commands import git_words
from tellback.guidance.progress.programs import GREPS
from tellback.guidance.shell import SimpleCommand, simple_commands

# Programs whose exit of 1 is an answer: nothing found, or a difference.
_ANSWERING: Final = words_in(
    "diff cmp test [ [[ pgrep pidof which type expr colordiff sdiff command hash let nc lsof pkill killall",
).union(GREPS)
_GIT_ANSWERS: Final = words_in("diff grep check-ignore merge-base show-ref rev-parse config ls-remote")
# Programs that search, where no output at all means that nothing was found.
SEARCHING: Final = GREPS | words_in("find fd locate pgrep which")

# Filters of texts and tables, whose output is what they were given, or begins with their names.
FILTERS: Final = words_in(
    "pr split csplit dd iconv expand unexpand bzcat xzcat zstdcat zless datamash mlr csvcut csvgrep csvlook csvsort"
    " csvstat xsv qsv",
)
# Programs that only show what is there. Their output is never read for errors of its own.
_READING: Final = words_in(
    "cat head tail less more nl bat tac rev sed awk gawk cut sort uniq tr wc jq yq xxd hexdump od strings file stat",
    "du df ls ll tree column paste comm join fold fmt base64 md5sum sha256sum echo printf pwd cd env date whoami id",
    "hostname uname ps top free true false : export source . set unset sleep tee basename dirname realpath readlink",
    "seq history man journalctl pushd popd open view decompile disassemble read return exit dmesg mkdir touch shopt",
    "alias wait umask clear apropos zcat gh vim for case trap glow mdcat fzf tldr errno printenv",
).union(_ANSWERING, SEARCHING, FILTERS)
# `bisect` runs what fails on purpose.
_GIT_READING: Final = words_in(
    "show log diff blame status ls-files ls-tree branch reflog cat-file remote shortlog describe tag stash rev-list",
    "for-each-ref whatchanged add notes archive bisect name-rev format-patch",
).union(_GIT_ANSWERS)
# What some of them also do, told by a word behind the verb.
_GIT_CHANGES: Final = words_in(
    "pop apply drop push clear create add rm remove rename set-url prune -d -D --delete -m -M --move"
)
_GIT_CHANGEABLE: Final = words_in("stash branch remote tag")
# They print nothing of their own, but complaints behind their names: what is shown beside them was read.
QUIET: Final = words_in("cp mv ln rm chmod chown gzip gunzip bzip2 xz zstd mktemp install sync kill")
# Options by which what is unpacked goes to the output.
_PACKER: Final = re.compile(r"-[a-z0-9]*c[a-z0-9]*$|--(?:stdout|to-stdout)$")
_TO_OUTPUT: Final = {
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd"), _PACKER),
    "tar": re.compile(r"-?[a-zA-Z]*O[a-zA-Z]*$|--to-stdout$"),
    "unzip": re.compile(r"-[a-z]*[pc][a-z]*$"),
}
# Clients of databases: what they print is data, unless their exit code says otherwise.
DATABASES: Final = words_in("psql mysql mariadb sqlite3 duckdb redis-cli valkey-cli mongosh")
_SYSTEM: Final = ("/bin", "/usr", "/sbin", "/opt/homebrew", "/nix")
# What a program that is installed shows under these verbs is the log of another.
_LOGS: Final = words_in("logs logcat trace tail")
_LOG_CLIENTS: Final = words_in(
    "adb aws az docker docker-compose fly flyctl gcloud glab heroku kubectl nerdctl netlify oc pm2 podman railway"
    " stern supervisorctl vercel wrangler"
)
# They run what is given to them on another machine or in a container, where a log may say anything too.
_CARRIERS: Final = words_in("docker docker-compose kubectl lxc nerdctl oc podman")
# Options of theirs that take the next word.
_WITH_VALUE: Final = words_in(
    "-B -b -c -D -E -e -F -f -I -i -J -l -m -n -o -p -S -u -w --container --context --env --kubeconfig --namespace",
    "--user --workdir",
)
_FLAGS_OF_EXEC: Final = words_in("-i -it -t -ti -d -T")


def answers_by_exit(command: SimpleCommand) -> bool:
    """Check for a program whose exit of 1 is an answer."""
    if command.program == "git":
        return bool(_GIT_ANSWERS & set(command.words[:6]))
    if command.program == "jq":
        return any(word in ("-e", "--exit-status") for word in command.words)
    return command.program in _ANSWERING and _is_of_system(command)


# Exits that the documents of a program call no failure, by the words that it was given: changes, an inactive unit.
_DOCUMENTED: Final = (
    (("terraform", "tofu"), ("plan", "-detailed-exitcode"), range(2, 3)),
    (("terraform", "tofu"), ("plan", "--detailed-exitcode"), range(2, 3)),
    (("helm",), ("diff", "--detailed-exitcode"), range(2, 3)),
    (("kubectl",), ("diff",), range(1, 2)),
    (("gh",), ("pr", "checks"), range(8, 9)),
    (("npm", "pnpm"), ("outdated",), range(1, 2)),
    (("systemctl",), ("is-active",), range(3, 4)),
    (("systemctl",), ("is-enabled",), range(1, 2)),
    (("systemctl",), ("is-failed",), range(1, 2)),
    (("systemctl",), ("status",), range(3, 4)),
    (("dnf", "yum"), ("check-update",), range(100, 101)),
    (("getent",), (), range(2, 3)),
    (("jq",), ("-e",), range(1, 2)),
    (("robocopy", "robocopy.exe"), (), range(1, 8)),
)


def is_documented_answer(command: SimpleCommand, code: int) -> bool:
    """Check for an exit that is an answer, as the documents of the program say."""
    return any(
        command.program.lower() in programs and code in codes and set(words) <= set(command.words)
        for programs, words, codes in _DOCUMENTED
    )


def is_reading(command: SimpleCommand) -> bool:
    """Check for a program that only shows what is there."""
    words = command.words
    carried = run_elsewhere(command)
    if carried or own_complaints(command) is not None:
        return all(map(is_reading, carried))
    if command.program == "git":
        verb = next(iter(git_words(words)), "")
        return verb in _GIT_READING and not (verb in _GIT_CHANGEABLE and _GIT_CHANGES & set(words))
    if command.program in _LOG_CLIENTS:
        return bool(_LOGS & set(words[:4]))
    if unpacks := _TO_OUTPUT.get(command.program):
        return any(map(unpacks.match, words))
    if command.program in ("sed", "perl"):
        return _filters_lines(command)
    checks = command.program.endswith("sum") and bool({"-c", "--check"} & set(words))
    return command.program in _READING and not checks and _is_of_system(command)


# A shell, of the folder or file that the command names; and what brings a command to another host or a container.
_SHELL_SAID: Final = re.compile(r"\S{0,40}sh: (?:(?:line )?\d{1,6}: )?(?:cd: )?(?P<name>[^\n:]{1,300}): [^\n]{1,100}$")
_CARRIER_SAID: Final = re.compile(
    r"ssh: |[^\n]{0,100}Permission denied \(|Host key verification |kex_|Connection (?:closed|reset|timed) "
    r"|OCI runtime exec failed: "
    r"|Error response from daemon|Error from server|error: (?:Internal error occurred|unable to upgrade|error exec)"
)


def complaint_beside_value(text: str, commands: Sequence[SimpleCommand]) -> str | None:
    """Return the complaint that was printed in place of a stored value, "" of a value, None without such a program."""
    asked = [each for command in commands for each in run_elsewhere(command) or (command,)]
    own = next((found for each in asked if (found := own_complaints(each)) is not None), None)
    if own is None:
        return None
    if said := own.match(text):
        end = len(said.group().rstrip())
        return text[text.rfind("\n", 0, end) + 1 :].partition("\n")[0].strip("\u2502 ")  # Terraform's frame
    first = text.partition("\n")[0]
    of_shell = _SHELL_SAID.match(first)
    named = of_shell and any(of_shell["name"] in (*each.words, *each.writes_to) for each in commands)
    return first if named or is_not_carried(first, commands) else ""


def is_not_carried(line: str, commands: Sequence[SimpleCommand]) -> bool:
    """Check for a line in which `ssh`, `docker exec` and their kin say that they could not run a command elsewhere."""
    return any(map(run_elsewhere, commands)) and _CARRIER_SAID.match(line) is not None


# `perl -ne 'print if /ERROR/' app.log`; with `-i` it writes the file.
_LINE_FILTER: Final = re.compile(r"-[a0lwsE]{0,6}[np][a0lws]{0,6}e?$")
_IN_PLACE: Final = re.compile(r"-[a-z0]{0,6}i")


def _filters_lines(command: SimpleCommand) -> bool:
    options = command.words[:4]
    if command.program == "sed":
        return not any(word.startswith(("-i", "--in-place")) for word in options)
    return any(map(_LINE_FILTER.match, options)) and not any(map(_IN_PLACE.match, options))


def shows_traceback(commands: Sequence[SimpleCommand], output: str) -> bool:
    """Check for a traceback that code in the command printed, as from a log: its own begins in `<string>`, `<stdin>`.

    Filters may shorten it, but its first line is followed by where it began. A log may be shown beside it.
    """
    runs = [each for each in commands if not is_reading(each)]
    if not runs or not all(each.program.startswith("python") and is_inline(each) for each in runs):
        return False
    alone = len(commands) == 1
    begun = "Traceback (most recent call last):" + ("" if alone else "\n  File ")  # `grep Error` leaves no place
    traced = begun in output and "Exception in thread " not in output
    return traced and 'File "<std' not in output and 'File "<string>"' not in output


# The same words of `git status`, and of a dry run, are an answer.
_NOT_COMMITTED: Final = re.compile(
    r"^(?:nothing (?:added )?to commit\b|no changes added to commit\b)[^\n]{0,200}", re.MULTILINE
)


def uncommitted_line(output: str, commands: Sequence[SimpleCommand]) -> str | None:
    """Return the line in which `git commit` says that there was nothing to commit."""
    words = [git_words(each.words) for each in commands if each.program == "git"]
    verbs = {next(iter(each), "") for each in words}
    asked = "status" in verbs or any("--dry-run" in each for each in words)
    found = _NOT_COMMITTED.search(output) if "commit" in verbs and not asked else None
    return None if found is None else found.group()


_INTERPRETER: Final = re.compile(r"(?:python|pypy)[\d.]*$|node$|bun$|ruby$")
_INLINE: Final = words_in("- -c -e -p -pe --eval --print")


def is_inline(command: SimpleCommand) -> bool:
    """Check for an interpreter whose code stands in the command itself."""
    options = set(takewhile(lambda word: word.startswith("-"), command.words))
    reads_code = command.stdin and not command.words
    return (reads_code or not _INLINE.isdisjoint(options)) and _INTERPRETER.match(command.program) is not None


def runs_inline(commands: Sequence[SimpleCommand]) -> bool:
    """Check that nothing runs but code in the command itself, whose failure shows a trace; it may print any words.

    Behind a pipe one line of the trace may be left.
    """
    inline = [each for each in commands if not is_reading(each)]
    return bool(inline) and all(map(is_inline, inline)) and not any(each.before == "|" for each in commands)


_ECHOED_WORDS: Final = 3
_STARTS: Final = 4  # up to three subcommands and names may stand before the text
_MOST_ECHOES: Final = 64  # a long command has 2,000, and each is sought in the whole output
_ECHO: Final = "_"


def without_echoes(output: str, commands: Sequence[SimpleCommand]) -> str:
    """Return an output without the sentences that the command itself was given.

    `jira issue create -s 'cart not found'` answers "SHOP-12: cart not found". What fails may quote its argument
    too, but says more than that. One word may be a name, so only several in an argument count, or three at the end.
    """
    given: set[str] = set()
    for each in commands:
        values = (word.partition("=")[2] if word.startswith("--") else word for word in each.words)
        given.update(value.strip() for value in values if " " in value.strip())
        bare = list(takewhile(lambda word: not word.startswith("-"), reversed(each.words)))[::-1]
        if len(bare) >= _ECHOED_WORDS:
            given.update(" ".join(bare[start:]) for start in range(min(len(bare) - _ECHOED_WORDS + 1, _STARTS)))
    for text in sorted(given, key=lambda text: (-len(text), text))[:_MOST_ECHOES]:
        output = output.replace(text, _ECHO)
    return output


def without_given_lines(output: str, commands: Sequence[SimpleCommand]) -> str:
    """Return an output without the lines that the command itself holds."""
    given = "\n".join(said for each in commands for said in (*each.words, each.stdin))
    return "\n".join(line for line in output.splitlines() if line.strip() not in given)


def writes_out(commands: Sequence[SimpleCommand], text: str) -> bool:
    """Check for a text that stands in the command itself, as what it prints or stores."""
    return any(text in said for each in commands for said in (*each.words, each.stdin))


_LABELS: Final = re.compile(r"error|exception|fatal|could not|can't", re.IGNORECASE)


def is_value(output: str, commands: Sequence[SimpleCommand]) -> bool:
    """Check for a stored value, whatever it says: databases and `terraform output` label each error of their own."""
    return bool(commands) and all(map(_prints_values, commands)) and not _LABELS.search(output)


def _prints_values(command: SimpleCommand) -> bool:
    states = command.program in ("terraform", "tofu") and "output" in command.words[:2]
    return states or command.program in DATABASES


# `kubectl exec`, of a container that is not there.
_NOT_CARRIED: Final = re.compile(r"error: (?:Internal error occurred: )?(?:unable to upgrade|error executing) ")


def labels_its_own(command: SimpleCommand, said: str) -> bool:
    """Check for a reading program that says "error: ..." of itself; `cat` and `ssh` say it behind their names.

    Of a program that shows logs it is one line; several are a log's.
    """
    carries = bool(run_elsewhere(command))
    return command.program in ("git", "gh") or (
        command.program in (_CARRIERS if carries else _LOG_CLIENTS)
        and "\n" not in said
        and (not carries or _NOT_CARRIED.match(said) is not None)
    )


def run_elsewhere(command: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """Return what a command runs elsewhere: `ssh host "cat app.log"`, `kubectl exec api-0 -- cat app.log`."""
    words = command.words
    if command.program in _CARRIERS and "exec" in words[:6]:
        words = words[words.index("exec") + 1 :]
    elif command.program != "ssh":
        return ()
    place = 0
    while place < len(words) and words[place].startswith("-"):
        flag = command.program != "ssh" and words[place] in _FLAGS_OF_EXEC
        place += 1 + (words[place] in _WITH_VALUE and not flag)
    if "--" in words:
        place = words.index("--")
    return simple_commands(" ".join(words[place + 1 :]))  # behind the host, the container or the dashes


def _is_of_system(command: SimpleCommand) -> bool:
    """Check for a program of the system; `bin/test` and `./date` are a project's own."""
    return not command.folder or command.folder.startswith(_SYSTEM)


# What a shell says of its own start in a container or on another host, above or below each output.
_STARTUP: Final = re.compile(
    r"^(?:-?\w{0,8}sh: )?(?:/etc/profile[\w./-]{0,80}"
    r"|[\w./~-]{0,80}/\.(?:bashrc|bash_profile|profile|zshrc|zshenv)): .*\n?",
    re.MULTILINE,
)
ABSENT_FOLDER: Final = re.compile(r"^\w{0,8}sh: (?:line \d+: )?cd: .*\n?", re.MULTILINE)


def without_startup(output: str, commands: Sequence[SimpleCommand]) -> str:
    """Return an output without the complaints of a shell about its start: who goes to no folder misses none."""
    if "sh: " in output or "profile" in output:
        output = _STARTUP.sub("", output)
        if not any("cd" in (each.program, *" ".join(each.words).split()) for each in commands):
            output = ABSENT_FOLDER.sub("", output)
    return output


# What a program says to whose output nobody listens any more: Python, pip, and the tools of GNU.
_CLOSED_PIPE: Final = re.compile(
    r"^(?:Exception ignored .*\n)?(?:Traceback \(most recent call last\):\n(?:[ \t].*\n)*+)?BrokenPipeError: .*\n?"
    r"|^ERROR: Pipe to stdout was broken$|^[\w.-]{1,40}: (?:.{0,80}\bbroken pipe|write error)$",
    re.MULTILINE | re.IGNORECASE,
)
_FIRST_ONLY: Final = re.compile(r"-[a-zA-Z]*[qm]|--(?:quiet|max-count)")


def without_closed_pipe(output: str, commands: Sequence[SimpleCommand]) -> str:
    """Return an output without the complaints about a reader, such as `head`, that read no further than it needed."""
    return _CLOSED_PIPE.sub("", output) if any(map(_stops_reading, commands)) else output


def _stops_reading(command: SimpleCommand) -> bool:
    if command.before != "|":
        return False
    return command.program == "head" or (command.program in GREPS and any(map(_FIRST_ONLY.match, command.words)))
