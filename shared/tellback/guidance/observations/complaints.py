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

from tellback.guidance.observations.commands import answers_by_exit, is_reading
from tellback.guidance.observations.diagnostics import ERROR_WORDS
from tellback.guidance.shell import SimpleCommand


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# They print their own name only to complain. Not `make`, `go`, `tar`, `gpg` and `rsync`, which report progress so.
_UTILITIES: Final = _words(
    "awk cat chgrp chmod chown cp curl cut date dd df diff dirname du env expr file find gawk getent grep egrep"
    " fgrep git groupadd gunzip gzip head hostname id install ip jq kill ln ls lsof mawk mkdir mktemp mount mv nc"
    " nohup od openssl paste patch pgrep pkill pip3 ps psql python python3 readlink realpath rg rm rmdir scp sed"
    " sort split ssh stat su sudo systemctl tail tee timeout touch tr truncate umount uniq unshare unzip useradd"
    " wc wget which whoami xargs xxd yq zip"
)

_CMDLET: Final = re.compile(r"[A-Z]\w{1,20}-[A-Z]\w{1,40}$")  # PowerShell's

# `simple_commands` leaves them out.
_AROUND: Final = _words("sudo timeout xargs env nohup nice stdbuf")

# Programs of others that report on their own work. Not what runs or shows something else: `docker logs`, `gh run view`.
_TOOLS: Final = _words(
    "ansible ansible-playbook apk apt apt-get aws az bazel black bower brew buildah bun bundle cargo cdk cmake"
    " composer conda coverage dnf docker docker-compose dotnet dpkg eslint esbuild flutter gcloud gem git go gradle"
    " gradlew gsutil helm hg isort jest kubectl lerna mamba meson minikube mix mvn mvnw mysql next npm nx pdm php pip"
    " pip3 pnpm podman poetry prettier prisma psql pulumi rails rake rollup rustc rustup sass sbt serverless sqlite3"
    " svn swift tea terraform tofu tsc turbo uv uvx vagrant vault vite webpack yarn yum"
)
# What they print are the words of others: of the agent's code, a recipe, a page, a table, a history, another machine.
_PASSING_ON: Final = _words(
    "python python2 python3 pypy3 ipython node deno bun ruby irb perl php lua julia java Rscript bash sh zsh fish su"
    " make gmake just ninja rake npx tsx ts-node tox nox pytest ctest env time watch parallel xargs eval expect"
    " curl wget http https xh lynx w3m ssh tmux screen script mysql mariadb psql sqlite3 redis-cli mongosh duckdb"
    " pandoc groff base64 iconv gzip gunzip pdftotext html2text git"
)
_LISTING: Final = _words("get list ls search info view status help --help -h events output diff history explain")
_NAME: Final = re.compile(r"[A-Za-z][\w.+-]+$")
_SHOWING: Final = _words("logs log exec run attach cat describe inspect show test start dev api")

_LINTERS: Final = _words(
    "ansible-lint bandit codespell cpplint flake8 golangci-lint hadolint htmlhint luacheck markdownlint mdl pycodestyle"
    " pydocstyle pyflakes pylint revive ruff shellcheck standard staticcheck stylelint tflint vulture xo yamllint"
)
_FINDING: Final = re.compile(
    r"^(?: {4})?(?:[^\s:()]{1,300}:\d+(?::\d+)?:? \S[^\n]{0,300}"
    r"|In [^\s:()]{1,300} line \d+:(?:\n[^\n]{0,300}\n\s{0,200}\^-{1,200}\^? (?P<said>[^\n]{1,300}))?$"
    r"| {2,4}\d+:\d+ {1,12}error\b[^\n]{1,300}|>> Issue: [^\n]{1,300})",
    re.MULTILINE,
)

# A word for an error, at the beginning of a line or in a frame; after it a place or a code, then the colon.
_LABELLED: Final = re.compile(
    rf"^(?:[^\w\s]{{1,3}} ?)?(?:[\w.-]{{1,20}} )?(?:failed|failure|{ERROR_WORDS})\b\]?"
    r"(?:\[[^\]\n]{1,30}\]|\([^)\n]{1,40}\)| [^:\n]{1,120})?\s?[:\uff1a] {0,4}\S[^\n]{0,300}$"
    r"|^\[(?:error|fatal)\] \w[^\n]{1,300}"
    r"|^ERROR \d{1,5} \(\w{5}\)[^\n]{1,300}|^An error occurred \([^)\n]{1,80}\) when calling [^\n]{1,200}",
    re.MULTILINE | re.IGNORECASE,
)
# Counts and settings are labelled alike ("Failed: 0", "error: null").
_NO_FAILURE: Final = re.compile(
    r"[:\uff1a]\W*(?:0|none|null|false|no|off)?\W*$|\bwarn|pip's dependency resolver does not", re.IGNORECASE
)

# Sentences of tools that have no label.
_SAID: Final = re.compile(
    r"^(?:(?:fish: )?Unknown (?:sub)?command: ['\w][^\n]{1,200}"
    r"|(?:[\w.-]{1,40}: )?(?:unknown|invalid|unrecognized|missing) [^\n]{1,200}(?=\n{1,2}[Uu]sage: )"
    r"|To get started with GitHub CLI, please run:[^\n]{0,80}|The connection to the server [^\n]{1,200} was refused"
    r"|Could not find (?:gem|a matching version|a version|command|proper version)[^\n]{0,200}"
    r"|[ \u00d7x]{1,4}No solution found[^\n]{0,200}"
    r"|go: (?!downloading|finding|extracting|added|upgraded|downgraded|removed|creating|to add|found|warning)"
    r"[^\n]{1,300}"
    r"|(?:The term )?'[^'\n]{1,100}' is not recognized as an? (?:internal|name)[^\n]{0,200}"
    r"|[^\n]{1,80} : (?:The term|Le terme|Die Benennung|El t\u00e9rmino|O termo|Il termine)\b[^\n]{1,300}"
    r"|\s{0,8}\+ CategoryInfo {1,20}: [^\n]{1,200}"
    r"|Der Befehl \"[^\"\n]{1,100}\" ist entweder falsch geschrieben[^\n]{0,80}"
    r"|(?:\[?sudo\]?:? )?[^\n]{0,40}a password is required$"
    r"|[\w.-]{1,60}@[\w.-]{1,100}: Permission denied \([^)\n]{1,80}\)\.?"
    r"|Permission denied \((?:publickey|password|gssapi)[^)\n]{0,80}\)\.?"
    r"|psql:[^\s:]{1,300}:\d+: (?:ERROR|FATAL): [^\n]{1,300}"
    r"|nginx: \[(?:emerg|alert)\] [^\n]{1,300}"
    r"|Could not connect to Redis at [^\n]{1,200}|Host key verification failed\.?"
    r"|Waiter \w{1,60} failed: [^\n]{1,200})",
    re.MULTILINE,
)

# A sentence without a label, such as "Could not locate Gemfile".
_UNABLE: Final = re.compile(
    r"(?:[^\s,]{1,80}[ ,]{1,2}){0,10}?(?:"
    r"(?:could not|couldn't|cannot|can't|unable to|there is no|is not (?:an?|installed|recogni[sz]ed|supported|valid)"
    r"|do(?:es)? not (?:exist|contain)|no such|must be installed|has not been"
    r"|not found)\b|abort(?:ed)?[:!]|failed(?:\.?$|:| to\b)"
    r"|unknown (?:command|option|flag|argument)\b|unrecogni[sz]ed\b)",
    re.IGNORECASE,
)
_NOTED: Final = re.compile(r"(?:\S{1,20} )?\W?(?:warn|note|info|hint)", re.IGNORECASE)
_SENTENCE_LINES: Final = 12

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
    return (
        _own_complaint(output, _names(commands))
        or _said_by_tool(output, commands)
        or _finding_of_linter(output, commands)
        or _whole_sentence(output, commands)
    )


def complains_only(output: str, commands: Sequence[SimpleCommand]) -> bool:
    """Check for an output that has nothing but complaints of utilities among the commands."""
    names = _names(commands)
    lines = [line[:600] for line in output[: _END + 1].splitlines() if line.strip()]
    rest = [line for line in lines if not _is_complaint(line, names)]
    return len(output) <= _END and len(rest) < len(lines) and all(map(_ADVICE.match, rest))


def _names(commands: Iterable[SimpleCommand]) -> frozenset[str]:
    return frozenset(name for each in commands if (name := each.program) in _UTILITIES or _CMDLET.match(name)) | _AROUND


def _is_complaint(line: str, names: frozenset[str]) -> bool:
    name, colon, said = line.strip().partition(":")
    return bool(colon) and name.rpartition("/")[2].strip() in names and bool(said) and not _WARNING.match(said)


# How a system call failed, as any program says it behind its own name.
_SYSTEM_CALL: Final = re.compile(
    r"[\w.+-]{1,40}: [^\n]{0,400}(?:No such file or directory|No such process|Not a directory|Is a directory"
    r"|File exists|Directory not empty|Permission denied|Operation not permitted|Connection (?:refused|timed out)"
    r"|No space left on device|Cannot allocate memory|Read-only file system|Too many open files"
    r"|Argument list too long)\.?$"
)


def _own_complaint(output: str, names: frozenset[str]) -> str | None:
    """Return the complaint of a utility that ends the output; before more output it was about one file of several."""
    lines = [line.strip()[:600] for line in output[-_END:].splitlines() if line.strip()][-_LAST_LINES:]
    while len(lines) > 1 and _ADVICE.match(lines[-1]):
        lines.pop()
    return lines[-1] if lines and (_is_complaint(lines[-1], names) or _SYSTEM_CALL.match(lines[-1])) else None


def _said_by_tool(output: str, commands: Sequence[SimpleCommand]) -> str | None:
    said = _SAID.search(output)
    if said is not None:
        return said.group().strip()
    if not any(each.program in _TOOLS and not _SHOWING & set(each.words[:3]) for each in commands):
        return None
    labelled = (match.group().strip() for match in _LABELLED.finditer(output))
    return next((line for line in labelled if not _NO_FAILURE.search(line)), None)


def _whole_sentence(output: str, commands: Sequence[SimpleCommand]) -> str | None:
    """Return the first or last line of a short output if any program says there that something was not possible."""
    working = [each for each in commands if not is_reading(each)]
    if not working or len(output) > _END or any(map(answers_by_exit, commands)):
        return None
    if any(
        each.folder
        or each.program in _PASSING_ON
        or (_SHOWING | _LISTING) & set(each.words[:3])
        or _NAME.match(each.program) is None
        for each in working
    ):
        return None
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines or len(lines) > _SENTENCE_LINES:
        return None
    said = (line for line in (lines[0], lines[-1]) if _UNABLE.match(line[:300]) or _LABELLED.match(line[:600]))
    return next((line for line in said if not _NOTED.match(line) and not _NO_FAILURE.search(line)), None)


def _finding_of_linter(output: str, commands: Sequence[SimpleCommand]) -> str | None:
    if not any(each.program in _LINTERS and not {"--fix", "format", "--help"} & set(each.words) for each in commands):
        return None
    found = _FINDING.search(output)
    return None if found is None else (found["said"] or found.group()).strip()
