"""The effect of well-known programs: which read, search, change, install, test, run or wait.

Names alone decide where they leave no doubt; for git, package managers and build tools the subcommand does. A program
that is not known runs something that may answer differently each time, and is taken to change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tellback.guidance.progress.downloads import saves_file
from tellback.guidance.progress.effects import Effect, named, words_in
from tellback.guidance.progress.git_commands import GIT_READERS, from_subcommand, git_effect
from tellback.guidance.progress.github_commands import github_effect
from tellback.guidance.progress.packagers import INSTALLERS, PACKAGERS, installer_effect, packager_effect
from tellback.guidance.progress.subcommands import subcommand_effect
from tellback.guidance.shell import SimpleCommand

# Programs that only read, apart from the options in `_WRITING_OPTIONS`.
_READERS: Final[dict[str, Effect]] = {
    **named("none", "echo printf pwd true false : clear"),
    **named(
        "read",
        "cat head tail nl ls tree wc stat which whereis type printenv diff cmp md5sum sha256sum du df ps id whoami",
        "uname sort cut tr jq hexdump od column basename dirname realpath readlink strings nm free lsof pgrep lscpu",
    ),
    **named("search", "grep egrep fgrep rg find zgrep"),
}
_BY_NAME: Final[dict[str, Effect]] = {
    **_READERS,
    **named("none", "cd export set source . read shift local for case select function pushd popd unset alias exit"),
    **named(
        "read",
        "less more file env date top uniq yq xxd awk gawk ldd netstat ss curl wget http open goto scroll_up",
        "scroll_down host dig ping man identify exiftool info help hostname test [ [[",
        "dpkg-query journalctl dmesg apt-cache zcat zipinfo sha1sum cksum",
    ),
    **named(
        "read",
        "get-content gc dir get-childitem gci get-item get-location test-path get-process select-object where-object",
        "measure-object sort-object format-table format-list out-string resolve-path get-command get-date get-help",
        "get-service invoke-webrequest invoke-restmethod",
    ),
    **named("search", "ag ack locate search_dir search_file find_file fzf select-string sls findstr"),
    **named("wait", "start-sleep"),
    **named("none", "set-location write-output write-host"),
    **named(
        "write",
        "rm mv cp mkdir rmdir touch chmod chown ln tee patch dd truncate unzip tar gzip gunzip zip rsync kill pkill",
        "killall edit create insert append write apply_patch black isort gofmt goimports autopep8 yapf prettier 2to3",
        "launchctl set-content add-content out-file remove-item new-item copy-item move-item",
        "rename-item del erase clear-content export-csv expand-archive compress-archive copy move ren rename md rd ni",
        "ri xcopy robocopy mklink clang-format crontab scp createdb dropdb pg_restore",
    ),
    **named("install", "easy_install virtualenv venv"),
    **named(
        "test",
        "pytest py.test unittest tox nox jest vitest mocha ava karma phpunit rspec ctest make gmake ninja cmake mvn",
        "gradle gradlew mvnw bazel buck meson tsc mypy pyright pylint flake8 pyflakes ruff eslint biome golangci-lint",
        "staticcheck shellcheck luacheck gotestsum nosetests nose2 trial runtests.py test.sh py_compile compileall",
        "doctest pre-commit gcc g++ clang rustc javac pycodestyle rubocop",
    ),
    **named("wait", "sleep wait watch"),
    **named("finish", "submit finish"),
}

# Subcommands of docker, kubectl and systemctl that only show something, and names that stand before a subcommand.
_STATE_READS: Final = words_in(
    "ps logs images inspect get describe top version info diff stats ls list history status show cat is-active",
    "is-enabled is-failed list-units list-unit-files list-timers port search df view get-contexts current-context",
    "api-resources api-versions cluster-info explain can-i",
) | {""}
_GROUPS: Final = words_in("compose container image volume network system config context buildx auth")
SCRIPT_PROGRAMS: Final = words_in("python python3 python2 node ruby perl php deno bun ipython osascript lua")
# Programs that ask a server.
CLIENTS: Final = words_in("curl wget http https xh invoke-webrequest invoke-restmethod")
# Searches of texts, whose first word is what they look for.
GREPS: Final = words_in("grep egrep fgrep rg zgrep ag ack")
# Test programs whose options say what is made, not only what is shown of it.
BUILDERS: Final = words_in("cmake gcc g++ clang rustc javac meson bazel buck ninja")
_FORMATTERS: Final = words_in("prettier black gofmt goimports isort autopep8 yapf clang-format")
_CHECKS: Final = words_in("--check -l -d --diff -c --check-only --list-different --dry-run")
# Formatters that print the file unless they are told to replace it.
_PRINTING: Final = words_in("prettier gofmt goimports autopep8 yapf clang-format")
_REPLACES: Final = words_in("-w --write -i --in-place")
_IN_PLACE: Final = re.compile(r"-[0np]*i(?:\.\w+)?e?$")  # `perl -pi -e`, `ruby -i.bak`
_TEST_SCRIPT: Final = re.compile(r"(?:^|/)(?:run_?tests?|test)\.py$")
_WRITING_CODE: Final = re.compile(
    r"""\.write\(|write_text|writelines|write_bytes|open\([^)]*["'][wa]b?\+?["']|shutil\.|os\.(?:remove|rename|unlink)
    |writeFile|unlink\(|-pi?\b.*-e|fs\.write""",
    re.VERBOSE,
)


def effect_of(command: SimpleCommand) -> Effect:
    """Return the effect of one simple command; a redirection into a file makes it a write."""
    if any(name not in ("/dev/null", "/dev/stderr", "/dev/stdout") for name in command.writes_to):
        found = _by_program(command)
        return found if found in ("test", "run", "install") else "write"
    return _by_program(command)


def _by_program(command: SimpleCommand) -> Effect:
    program, words = command.program, command.words
    special = _BY_ARGUMENTS.get(program)
    if special is not None:
        return special(words)
    found = subcommand_effect(program, words) or _of_data(command) or _by_option(program, words)
    if found is not None:
        return found
    if program in PACKAGERS:
        return packager_effect(program, words, _is_test)
    if program in SCRIPT_PROGRAMS:
        return _interpreter(program, words)
    if program in _FORMATTERS:
        return _formatter(program, words)
    by_name: Effect | None = "read" if program in REMOTES and _asks_by_verb(program, words) else _BY_NAME.get(program)
    return by_name or _BY_NAME.get(program.lower(), "run")  # PowerShell does not mind the case


def _of_data(command: SimpleCommand) -> Effect | None:
    if saves_file(command):
        return "write"
    if command.program in _SHELLS_OF_MONGO:
        return _asked_of_mongo(command)
    return _client_of_database(command) if command.program in _DATABASES else None


def _by_option(program: str, words: tuple[str, ...]) -> Effect | None:
    if program not in _BY_OPTION:
        return None
    option, with_it, without = _BY_OPTION[program]
    return with_it if any(map(option.match, words)) else without


def _interpreter(program: str, words: tuple[str, ...]) -> Effect:
    if program in ("perl", "ruby") and any(map(_IN_PLACE.match, words)):
        return "write"
    script = words[0].rpartition("/")[2] if words else ""  # `python manage.py migrate`
    return subcommand_effect(script, words[1:]) or ("test" if script and _TEST_SCRIPT.search(words[0]) else "run")


def _formatter(program: str, words: tuple[str, ...]) -> Effect:
    if not _CHECKS.isdisjoint(words):
        return "test"
    return "read" if program in _PRINTING and _REPLACES.isdisjoint(words) else "write"


# Clients of clouds, clusters and databases; their verb stands among the first words: `gcloud compute instances list`.
REMOTES: Final = words_in(
    "aws az gcloud helm terraform tofu pulumi ansible ansible-playbook flyctl fly heroku vercel netlify wrangler doctl",
    "cdk sam serverless eksctl gh psql mysql sqlite3",
)
_VERB_WORDS: Final = 4
_ASKING_VERBS: Final = words_in("list ls get describe show status logs history tail filter")


def _asks_by_verb(program: str, words: tuple[str, ...]) -> bool:
    if program == "aws":
        words = from_subcommand(words, _AWS_WITH_VALUE)
        words = words[words[:1] == ("logs",) :]  # a service
    plain = [word for word in words if not word.startswith("-")][:_VERB_WORDS]
    return any(word.partition("-")[0] in _ASKING_VERBS for word in plain)


def _is_test(program: str) -> bool:
    return _BY_NAME.get(program) == "test"


def _first(words: tuple[str, ...]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


# Options by which `kubectl get` looks for a label.
_SELECTS: Final = re.compile(r"-l|--selector|--field-selector")
_QUERIES: Final = re.compile(r"\bselect\b.*\bwhere\b", re.IGNORECASE | re.DOTALL)


def _kubectl(words: tuple[str, ...]) -> Effect:
    words = from_subcommand(words, _CONTAINER_WITH_VALUE, _GROUPS)
    if _first(words) == "rollout":
        return "wait" if "status" in words else "read" if "history" in words else "write"
    is_search = _first(words) == "get" and any(map(_SELECTS.match, words))
    return "search" if is_search else "wait" if {"-w", "--watch"} & set(words) else _container(words)


_DATABASES: Final = words_in("psql mysql mariadb sqlite3")
_RUNS_SCRIPT: Final = re.compile(r"-f|--file")


def _client_of_database(command: SimpleCommand) -> Effect:
    script = command.program == "psql" and any(map(_RUNS_SCRIPT.match, command.words))
    asked = (*command.words, command.stdin)
    if script or command.reads_from or any(map(STATEMENTS.match, asked)):
        return "write"
    return "search" if any(map(_QUERIES.search, asked)) else "read"


_SHELLS_OF_MONGO: Final = words_in("mongosh mongo")
_CHANGES_DOCUMENTS: Final = re.compile(
    r"\.(?:insert|update|delete|replace|remove|drop|create|rename|save|bulkWrite|findOneAnd|findAndModify)\w*\("
    r"|\$(?:out|merge)\b"
)
_ASKS_DOCUMENTS: Final = re.compile(
    r"\.(?:find|findOne|count\w*|estimatedDocumentCount|distinct|aggregate|\w*[sS]tats|explain|get\w+)\(|\bshow \w"
)


def _asked_of_mongo(command: SimpleCommand) -> Effect | None:
    asked = " ".join((*command.words, command.stdin))
    if _CHANGES_DOCUMENTS.search(asked):
        return "write"
    return "read" if _ASKS_DOCUMENTS.search(asked) and not command.reads_from else None


# Statements of SQL that change something.
STATEMENTS: Final = re.compile(r"\s*(?:insert|update|delete|create|drop|alter|truncate|grant)\b", re.IGNORECASE)


# Options of a program itself, before its subcommand, that take the next word.
_AWS_WITH_VALUE: Final = words_in("--profile --region --output --endpoint-url --query --color")
_CONTAINER_WITH_VALUE: Final = words_in(
    "-f --file -p --project-name --profile --env-file -n --namespace --context --kubeconfig -H --host"
)


_SAVES_FOUND: Final = re.compile(r"-(?:delete|fprint|fls)")
_RUNS_ON_FOUND: Final = words_in("-exec -execdir -ok -okdir -x -X --exec --exec-batch")


def _find(words: tuple[str, ...]) -> Effect:
    if any(map(_SAVES_FOUND.match, words)):
        return "write"
    run = next((n for n, word in enumerate(words) if word in _RUNS_ON_FOUND), len(words))
    found: Effect = _by_program(SimpleCommand(words[run + 1], words[run + 2 :])) if len(words) > run + 1 else "search"
    return "search" if found in ("none", "read") else found


def _container(words: tuple[str, ...]) -> Effect:
    words = from_subcommand(words, _CONTAINER_WITH_VALUE, _GROUPS)
    first = _first(words)
    if first == "wait" or (first == "logs" and {"-f", "--follow"} & set(words)):
        return "wait"
    return "read" if first in _STATE_READS else "run" if first in ("exec", "run", "port-forward") else "write"


def _service(words: tuple[str, ...]) -> Effect:
    return "read" if words[-1:] == ("status",) else "write"


_FOLLOWS: Final = re.compile(r"-[a-z]*f|-F|--follow")  # `-fn 20`, `-fu web`


def _tail(words: tuple[str, ...]) -> Effect:
    return "wait" if any(map(_FOLLOWS.match, words)) else "read"


def _journal(words: tuple[str, ...]) -> Effect:
    return "write" if any(map(_ROTATES.match, words)) else _tail(words)


def _archive(words: tuple[str, ...]) -> Effect:
    lists = words[:1] and re.match(r"-{0,2}[a-z]*t|--list", words[0])
    return "read" if lists else "write"


def _ruff(words: tuple[str, ...]) -> Effect:
    checks = {"--check", "--diff"} & set(words)
    return "write" if "--fix" in words or (_first(words) == "format" and not checks) else "test"


_ROTATES: Final = re.compile(r"--(?:vacuum|rotate|flush)")
_IN_PLACE_OPTION: Final = re.compile(r"-[a-zA-Z]*i|--in-place")
_AWK_SAVES: Final = re.compile(r'inplace$|.*\bprintf?\b[^;}"]*("[^"]*"[^;}"]*)*>\s*"')
_SHOWS_PACKED: Final = re.compile(r"-[a-z]*[lpctvZ]|--(?:stdout|list|test)")  # `unzip -l`, `gzip -dc`
_SAVES_DUMP: Final = re.compile(r"-f|--file|-r|--result-file")
_INSTALLING: Final = re.compile(r"-(?:[irPeUF]|-(?:install|unpack|configure|remove|purge|erase|upgrade)$)")
# Programs that do one thing if they have such an option, and another one without it.
_BY_OPTION: Final[dict[str, tuple[re.Pattern[str], Effect, Effect]]] = {
    **dict.fromkeys(("sed", "gsed"), (_IN_PLACE_OPTION, "write", "read")),
    **dict.fromkeys(("awk", "gawk"), (_AWK_SAVES, "write", "read")),
    "sort": (re.compile(r"-[^-]*o|--o"), "write", "read"),
    "yq": (re.compile(r"-i|--inplace"), "write", "read"),
    **dict.fromkeys(("unzip", "gzip", "gunzip"), (_SHOWS_PACKED, "read", "write")),
    **dict.fromkeys(("dpkg", "rpm"), (_INSTALLING, "install", "read")),
    **dict.fromkeys(("pg_dump", "pg_dumpall", "mysqldump"), (_SAVES_DUMP, "write", "read")),
    "cmake": (re.compile(r"--install$"), "install", "test"),
    "rsync": (re.compile(r"-[a-zA-Z]*n|--dry-run|--list-only"), "read", "write"),
}
_BY_ARGUMENTS: Final[dict[str, Callable[[tuple[str, ...]], Effect]]] = {
    **dict.fromkeys(INSTALLERS, installer_effect),
    "git": git_effect,
    "gh": github_effect,
    "docker": _container,
    "podman": _container,
    "docker-compose": _container,
    "systemctl": _container,
    "service": _service,
    "kubectl": _kubectl,
    "oc": _kubectl,
    "find": _find,
    "fd": _find,
    "tail": _tail,
    "journalctl": _journal,
    "tar": _archive,
    "ruff": _ruff,
}


def changes_files(command: SimpleCommand, effect: Effect) -> bool:
    """Check whether a command may change what another one reads."""
    if effect in ("write", "install"):
        return bool(command.writes_to) or not _builds_image(command)
    if command.writes_to and any(name != "/dev/null" for name in command.writes_to):
        return True
    if command.program in SCRIPT_PROGRAMS:
        return any(_WRITING_CODE.search(text) for text in (*command.words, command.stdin) if text)
    corrects = command.program == "rubocop" and not {"-a", "-A"}.isdisjoint(command.words)
    return effect == "test" and (corrects or not _FIXES.isdisjoint(command.words))


_LEAVES_FILES: Final = re.compile(r"-o|--(?:output|iidfile|metadata-file)(?:=|$)|\S+\.output=")


def _builds_image(command: SimpleCommand) -> bool:
    """Check for a build of an image: what it shows depends on files, and it changes none that it is not asked for."""
    if command.program not in ("docker", "podman", "docker-compose") or any(map(_LEAVES_FILES.match, command.words)):
        return False
    return _first(from_subcommand(command.words, _CONTAINER_WITH_VALUE, _GROUPS)) in ("build", "bake")


_FIXES: Final = words_in("--fix --write --apply --autocorrect --autocorrect-all")


# Options by which a reader writes, waits or runs something.
_WRITING_OPTIONS: Final = {
    "find": re.compile(r"-(?:exec|ok|delete|f(?:print|ls))"),
    "git": re.compile(r"-O|--(?:output|open-files|ext-diff|textconv)"),
    "rg": re.compile(r"--pre|--hostname-bin"),
    "sort": re.compile(r"-[^-]*o|--(?:o|c)"),
    "tail": re.compile(r"-[^-]*[fF]|--(?:f|retry)"),
    "tree": re.compile(r"-[^-]*o"),
}
_SHOWS_LINES: Final = re.compile(r"\d+(?:,(?:\d+|\$))?p")
_SUBSTITUTES: Final = re.compile(r"\$\(|`")  # what stands in there runs too
_SYSTEM_FOLDERS: Final = frozenset({"", "/bin", "/usr/bin"})  # a project may have a script of any name


def surely_reads(command: SimpleCommand) -> bool:
    """Check whether a command can change nothing that another one finds; False in every doubt."""
    program, words = command.program, command.words
    if (
        command.writes_to
        or command.folder not in _SYSTEM_FOLDERS
        or any(map(_SUBSTITUTES.search, (*words, command.stdin)))
    ):
        return False
    if program == "sed":
        options = [word for word in words if word.startswith("-")]
        return options == ["-n"] == [*words[:1]] and _SHOWS_LINES.fullmatch(" ".join(words[1:2])) is not None
    if program not in _READERS and not (program == "git" and words[:1] and words[0] in GIT_READERS):
        return False
    writing = _WRITING_OPTIONS.get(program)
    return writing is None or not any(map(writing.match, words))


# Programs that change files by the patch on their input.
PATCHERS: Final = frozenset({"apply_patch", "applypatch", "patch", "git"})
# A quoted name with an extension, as in `open("a.py", "w")`. A name that the script puts together stays unknown.
_FILE_NAMES: Final = re.compile(r"""['"]([\w./+-]{1,200}\.\w{1,5})['"]""")
_FILES_MAX: Final = 6  # by judgement; a trail keeps them for each script


def files_written_by(text: str) -> tuple[str, ...]:
    """Return the files that a script names, if it writes files at all."""
    if not text or _WRITING_CODE.search(text) is None:
        return ()
    return tuple(dict.fromkeys(_FILE_NAMES.findall(text)))[:_FILES_MAX]
