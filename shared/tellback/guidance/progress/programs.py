"""The effect of well-known programs: which read, search, change, install, test, run or wait.

Names alone decide where they leave no doubt; for git, package managers and build tools the subcommand does. A program
that is not known runs something that may answer differently each time, and is taken to change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tellback.guidance.progress.effects import Effect, named, words_in
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
    **named("none", "cd export set source . for case select function pushd popd unset alias exit"),
    **named(
        "read",
        "less more file env date top uniq yq xxd awk gawk ldd netstat ss curl wget http open goto scroll_up",
        "scroll_down host dig ping man identify exiftool info help hostname test [ [[",
        "dpkg-query journalctl dmesg",
    ),
    **named("read", "get-content gc dir get-childitem gci get-item get-location test-path get-process select-object"),
    **named("search", "ag ack locate search_dir search_file find_file fzf select-string sls findstr"),
    **named("wait", "start-sleep"),
    **named("none", "set-location write-output write-host"),
    **named(
        "write",
        "rm mv cp mkdir rmdir touch chmod chown ln tee patch dd truncate unzip tar gzip gunzip zip rsync kill pkill",
        "killall edit create insert append write apply_patch black isort gofmt goimports autopep8 yapf prettier 2to3",
        "launchctl set-content add-content out-file remove-item new-item copy-item move-item",
        "rename-item del erase",
    ),
    **named("install", "apt apt-get yum dnf apk brew conda mamba gem easy_install virtualenv venv"),
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

_GIT_READERS: Final = words_in(
    "log show status diff blame rev-parse ls-files ls-tree describe cat-file shortlog rev-list merge-base name-rev",
    "for-each-ref check-ignore whatchanged range-diff grep",
)
_GIT_READS: Final = _GIT_READERS | {"reflog"}  # which also expires and deletes
# Subcommands of git that read without a name, and write with one.
_GIT_EITHER: Final = frozenset({"branch", "tag", "config", "remote", "worktree"})
_PACKAGERS: Final = words_in("pip pip3 npm yarn pnpm bun cargo go poetry uv pdm composer bundle dotnet pipx")
_INSTALLS: Final = words_in("install i ci add uninstall remove update upgrade sync get require")
_TESTS: Final = words_in(
    "test t build check vet clippy run lint fmt tsc typecheck bench tool exec dlx run-script testall"
)
_STARTS: Final = words_in("start dev serve preview watch")
_GH_WRITES: Final = words_in("create edit merge close comment review checkout delete ready reopen clone")
# Subcommands of docker, kubectl and systemctl that only show something, and names that stand before a subcommand.
_STATE_READS: Final = words_in(
    "ps logs images inspect get describe top version info diff stats ls list history status show cat is-active",
    "is-enabled is-failed list-units list-unit-files list-timers",
)
_GROUPS: Final = words_in("compose container image volume network system")
SCRIPT_PROGRAMS: Final = words_in("python python3 python2 node ruby perl php deno bun ipython osascript lua")
# Programs that ask a server.
CLIENTS: Final = words_in("curl wget http https xh invoke-webrequest invoke-restmethod")
# Searches of texts, whose first word is what they look for.
GREPS: Final = words_in("grep egrep fgrep rg zgrep ag ack")
# Test programs whose options say what is made, not only what is shown of it.
BUILDERS: Final = words_in("cmake gcc g++ clang rustc javac meson bazel buck ninja")
_CHECKERS: Final = frozenset({"prettier", "black", "gofmt", "isort"})
_IN_PLACE: Final = re.compile(r"-[0np]*i(?:\.\w+)?e?$")  # `perl -pi -e`, `ruby -i.bak`
_FLAG_I: Final = re.compile(r"-[a-zA-Z]*i|--in-place")
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
    if program in _PACKAGERS:
        return _packager(_first(words))
    if program in ("perl", "ruby") and any(map(_IN_PLACE.match, words)):
        return "write"
    if program in SCRIPT_PROGRAMS:
        return "test" if words and _TEST_SCRIPT.search(words[0]) else "run"
    if program in _CHECKERS and {"--check", "-l", "-d", "--diff"} & set(words):
        return "test"
    found: Effect | None = "read" if program in REMOTES and _asks_by_verb(program, words) else _BY_NAME.get(program)
    return found or _BY_NAME.get(program.lower(), "run")  # PowerShell does not mind the case


# Clients of clouds, clusters and databases; their verb stands among the first words: `gcloud compute instances list`.
REMOTES: Final = words_in(
    "aws az gcloud helm terraform tofu pulumi ansible ansible-playbook flyctl fly heroku vercel netlify wrangler doctl",
    "cdk sam serverless eksctl gh psql mysql sqlite3",
)
_VERB_WORDS: Final = 4
_ASKING_VERBS: Final = words_in("list ls get describe show status logs history tail filter")


def _asks_by_verb(program: str, words: tuple[str, ...]) -> bool:
    if program == "aws":
        words = _from_subcommand(words, _AWS_WITH_VALUE)
        words = words[words[:1] == ("logs",) :]  # a service
    plain = [word for word in words if not word.startswith("-")][:_VERB_WORDS]
    return any(word.partition("-")[0] in _ASKING_VERBS for word in plain)


def _packager(first: str) -> Effect:
    if first in _INSTALLS:
        return "install"
    tests = first in _TESTS or _BY_NAME.get(first) == "test"  # `yarn jest`
    return "test" if tests else "run" if first in _STARTS else "read"


def _first(words: tuple[str, ...]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


# Options by which `git log` looks for a word, and `kubectl get` for a label.
_PICKAXE: Final = re.compile(r"-[SG]|--grep")
_SELECTS: Final = re.compile(r"-l|--selector|--field-selector")
_QUERIES: Final = re.compile(r"\bselect\b.*\bwhere\b", re.IGNORECASE | re.DOTALL)


def _kubectl(words: tuple[str, ...]) -> Effect:
    words = _from_subcommand(words, _CONTAINER_WITH_VALUE)
    if _first(words) == "rollout":
        return "wait" if "status" in words else "read" if "history" in words else "write"
    is_search = _first(words) == "get" and any(map(_SELECTS.match, words))
    return "search" if is_search else "wait" if {"-w", "--watch"} & set(words) else _container(words)


def _client_of_database(words: tuple[str, ...]) -> Effect:
    return "search" if any(map(_QUERIES.search, words)) else "read"


# Options of a program itself, before its subcommand, that take the next word.
_AWS_WITH_VALUE: Final = words_in("--profile --region --output --endpoint-url --query --color")
_GIT_WITH_VALUE: Final = words_in("-C -c --git-dir --work-tree --namespace")
_CONTAINER_WITH_VALUE: Final = words_in(
    "-f --file -p --project-name --profile --env-file -n --namespace --context --kubeconfig -H --host"
)


def git_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command of git from its subcommand on."""
    return _from_subcommand(words, _GIT_WITH_VALUE)


def _from_subcommand(words: tuple[str, ...], with_value: frozenset[str]) -> tuple[str, ...]:
    place = 0
    while place < len(words) and (words[place].startswith("-") or words[place] in _GROUPS):
        place += 2 if words[place] in with_value else 1
    return words[place:] if place else words


def _git(words: tuple[str, ...]) -> Effect:
    words = git_words(words)
    first = _first(words)
    if first == "grep" or (first == "log" and any(map(_PICKAXE.match, words))):
        return "search"
    if first == "stash":
        return "read" if {"list", "show"} & set(words) else "write"
    if first in _GIT_EITHER:
        return "read" if len([word for word in words if not word.startswith("-")]) <= 1 else "write"
    return "read" if first in _GIT_READS else "write"


def _sed(words: tuple[str, ...]) -> Effect:
    return "write" if any(_FLAG_I.match(word) for word in words if word.startswith("-")) else "read"


def _find(words: tuple[str, ...]) -> Effect:
    return "write" if "-delete" in words or ("-exec" in words and {"rm", "sed", "mv"} & set(words)) else "search"


def _gh(words: tuple[str, ...]) -> Effect:
    if _first(words) == "search":
        return "search"
    return "wait" if {"watch", "--watch"} & set(words) else "write" if _GH_WRITES & set(words) else "read"


def _container(words: tuple[str, ...]) -> Effect:
    first = _first(_from_subcommand(words, _CONTAINER_WITH_VALUE))
    return "wait" if first == "wait" else "read" if first in _STATE_READS else "run" if first == "exec" else "write"


def _service(words: tuple[str, ...]) -> Effect:
    return "read" if words[-1:] == ("status",) else "write"


def _tail(words: tuple[str, ...]) -> Effect:
    return "wait" if {"-f", "-F"} & set(words) else "read"


def _ruff(words: tuple[str, ...]) -> Effect:
    return "write" if "--fix" in words or (_first(words) == "format" and "--check" not in words) else "test"


_INSTALLING: Final = re.compile(r"-(?:[irPeUF]|-(?:install|unpack|configure|remove|purge|erase|upgrade)$)")


def _package_database(words: tuple[str, ...]) -> Effect:
    return "install" if any(map(_INSTALLING.match, words)) else "read"


_BY_ARGUMENTS: Final[dict[str, Callable[[tuple[str, ...]], Effect]]] = {
    "sed": _sed,
    "git": _git,
    "gh": _gh,
    "docker": _container,
    "podman": _container,
    "docker-compose": _container,
    "systemctl": _container,
    "service": _service,
    "kubectl": _kubectl,
    "oc": _kubectl,
    "psql": _client_of_database,
    "mysql": _client_of_database,
    "sqlite3": _client_of_database,
    "find": _find,
    "fd": _find,
    "tail": _tail,
    "ruff": _ruff,
    "dpkg": _package_database,
    "rpm": _package_database,
}


def changes_files(command: SimpleCommand, effect: Effect) -> bool:
    """Check whether a command may change what another one reads."""
    if effect in ("write", "install"):
        return True
    if command.writes_to and any(name != "/dev/null" for name in command.writes_to):
        return True
    if command.program in SCRIPT_PROGRAMS:
        return any(_WRITING_CODE.search(text) for text in (*command.words, command.stdin) if text)
    return effect == "test" and "--fix" in command.words


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
_SYSTEM_FOLDERS: Final = frozenset({"", "/bin", "/usr/bin"})  # a project may have a script of any name


def surely_reads(command: SimpleCommand) -> bool:
    """Check whether a command can change nothing that another one finds; False in every doubt."""
    program, words = command.program, command.words
    if command.writes_to or command.folder not in _SYSTEM_FOLDERS:
        return False
    if program == "sed":
        return words[:1] == ("-n",) and len(words) > 1 and _SHOWS_LINES.fullmatch(words[1]) is not None
    if program not in _READERS and not (program == "git" and words[:1] and words[0] in _GIT_READERS):
        return False
    writing = _WRITING_OPTIONS.get(program)
    return writing is None or not any(map(writing.match, words))


# A copy from such a name takes a file back. A copy to it is made before an edit, and restores nothing.
_BACKUP: Final = re.compile(
    r"\.(?:bak|backup|orig|original|old|save)\d*$|[._-](?:backup|bak|orig|original)\b", re.IGNORECASE
)

# Programs that change files by the patch on their input.
PATCHERS: Final = frozenset({"apply_patch", "applypatch", "patch", "git"})
_REVERSED: Final = frozenset({"-R", "--reverse"})


def restored_path(command: SimpleCommand) -> str:
    """Return the path that a command such as `git checkout FILE` or `cp FILE.bak FILE` takes back; "" for none."""
    words = git_words(command.words) if command.program == "git" else command.words
    if command.program in ("cp", "mv") and len(words) >= 2:
        return words[-1] if _BACKUP.search(words[-2]) and not _BACKUP.search(words[-1]) else ""
    if command.program == "patch" or (command.program == "git" and words[:1] == ("apply",)):
        return "*" if _REVERSED & set(words) else ""
    return _restored_by_git(words, command.writes_to) if command.program == "git" and words else ""


_REVISION: Final = re.compile(r"[0-9a-f]{7,40}|(?:HEAD|ORIG_HEAD|@)?[~^@][\w~^{}-]*|(?:v|release[-/])?\d[\w.-]*\d|-")


def moves_elsewhere(command: SimpleCommand) -> bool:
    """Check whether a command of git goes to another revision or branch, not to a new one made of what is there."""
    words = git_words(command.words) if command.program == "git" else ()
    if not words:
        return False
    first, rest = words[0], words[1:]
    if first == "bisect":
        return True
    if {"-b", "-B", "-c", "-C", "--orphan"} & set(rest):
        return False
    if first == "switch":
        return True
    names = [word for word in rest if not word.startswith("-") or word == "-"]
    return first == "checkout" and "--" not in rest and len(names) == 1 and bool(_REVISION.fullmatch(names[0]))


# The words behind `git stash` that put changes aside; it does so without one, too.
_STASHES: Final = words_in("push save -u -k -q -a -m --include-untracked")


def unstashes(command: SimpleCommand) -> bool:
    """Check whether a command brings back what `git stash` put aside."""
    if command.program != "git" or "stash" not in command.words:
        return False
    return git_words(command.words)[:1] == ("stash",) and not {"pop", "apply"}.isdisjoint(command.words)


def stashes(command: SimpleCommand) -> bool:
    """Check whether a command puts all changes aside."""
    words = git_words(command.words) if command.program == "git" else ()
    return words[:1] == ("stash",) and _STASHES.issuperset(words[1:2])


def _restored_by_git(words: tuple[str, ...], writes_to: tuple[str, ...]) -> str:
    first, rest = words[0], [word for word in words[1:] if word != "."]
    found = ""
    if first == "show":  # git show HEAD:FILE > FILE
        found = next((path for path in writes_to if any(word.endswith(f":{path}") for word in rest)), "")
    elif first == "checkout" and not {"--ours", "--theirs"} & set(rest):  # the two sides of a conflict
        is_path = "--" in rest or any("." in word for word in rest if not word.startswith("-"))
        found = rest[-1] if rest and is_path else "*" if words[-1] == "." else ""
    elif first == "reset" and "--hard" in rest:  # with another commit it moves the branch
        found = "*" if set(rest) <= {"--hard", "HEAD", "-q", "--quiet"} else ""
    elif first == "stash":
        found = "*" if _STASHES.issuperset(rest[:1]) else ""
    elif first == "restore" and "--staged" not in rest:
        found = rest[-1] if rest else "*"
    return found


def copied_files(command: SimpleCommand) -> tuple[str, str] | None:
    """Return the file that a command copies and its copy."""
    paths = [word.removeprefix("./") for word in command.words if not word.startswith("-")]
    return (paths[0], paths[1]) if command.program == "cp" and len(paths) == 2 else None


# A quoted name with an extension, as in `open("a.py", "w")`. A name that the script puts together stays unknown.
_FILE_NAMES: Final = re.compile(r"""['"]([\w./+-]{1,200}\.\w{1,5})['"]""")
_FILES_MAX: Final = 6  # by judgement; a trail keeps them for each script


def files_written_by(text: str) -> tuple[str, ...]:
    """Return the files that a script names, if it writes files at all."""
    if not text or _WRITING_CODE.search(text) is None:
        return ()
    return tuple(dict.fromkeys(_FILE_NAMES.findall(text)))[:_FILES_MAX]
