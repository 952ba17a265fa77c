"""Read the features of a shell command line: its strongest effect, the files it changes, and the lines it shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice, pairwise
from typing import Any, Final

from tellback.guidance.progress.downloads import saved_file, saves_file
from tellback.guidance.progress.effects import EFFECTS, Effect, words_in
from tellback.guidance.progress.features import END, ENVIRONMENT, SHOWN, CallFeatures, Edit, View
from tellback.guidance.progress.git_commands import git_keeps_files
from tellback.guidance.progress.patches import read_patch
from tellback.guidance.progress.programs import (
    BUILDERS,
    CLIENTS,
    GREPS,
    PATCHERS,
    REMOTES,
    SCRIPT_PROGRAMS,
    STATEMENTS,
    changes_files,
    effect_of,
    files_written_by,
)
from tellback.guidance.progress.restores import copied_files, moves_elsewhere, restored_path, stashes, unstashes
from tellback.guidance.progress.substance import mark_of
from tellback.guidance.progress.swaps import block_edit, placed_texts, swaps_of
from tellback.guidance.shell import SimpleCommand, simple_commands

_ADDRESS: Final = re.compile(  # no header, form or file
    r"(?:https?://|localhost\b|\d{1,3}(?:\.\d{1,3}){3}\b|\$\{?\w+\}?[:/]|[\w-]+(?:\.[\w-]+)+[:/])\S*$"
)
_SENDS: Final = words_in(
    "POST PUT PATCH DELETE -XPOST -XPUT -XPATCH -XDELETE -d --data --data-raw --data-binary --data-urlencode --json -F",
    "--form -T --upload-file --post-data --post-file",
)
_OPERATES: Final = words_in("kubectl oc docker docker-compose podman systemctl service ssh scp")
# The first words by which a client changes something there: `aws ec2 stop-instances`.
_CHANGES: Final = words_in(
    "apply destroy import create update delete put set add remove attach detach start stop reboot restart rerun",
    "trigger deploy up down install upgrade downgrade migrate uninstall rollback enable disable scale cp mv rm sync",
    "publish terminate modify register invoke send",
)
_SUBMITS: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def shell_features(tool: str, line: str, params: Mapping[str, Any]) -> CallFeatures:
    """Return the features of a command line; its result is not read yet."""
    if (edit := block_edit(line)) is not None:
        shown = " ".join(line.split())[:SHOWN]
        placed = ((edit.path, edit.new),)
        return CallFeatures(tool, "write", "", shown, writes=("",), edit=edit, contents=placed, form="edit")
    if not line or line.isspace():  # OpenHands looks with it at a command that still runs
        return CallFeatures(tool, "wait", "", "wait", waits=True)
    if _SUBMITS in line:
        return CallFeatures(tool, "finish", "", "submit")
    commands = simple_commands(line)
    parts: list[tuple[SimpleCommand, Effect]] = [(each, effect_of(each)) for each in commands]
    effects = [effect for _, effect in parts]
    asked: list[Effect] = [effect for each, effect in parts if not _is_filter(each, effect)]
    strongest = max(asked, key=EFFECTS.index) if asked else "none"
    asking = [each for each, effect in parts if effect == strongest and not _is_filter(each, effect)]
    features = CallFeatures(tool, strongest, _shell_target(asking, strongest), " ".join(line.split())[:SHOWN])
    features.purpose = _purpose(asking)
    features.programs = tuple(each.program for each in commands)
    features.acts = sum(effect in ("write", "run", "test", "install") for effect in effects)
    if strongest in ("run", "test", "install"):
        features.folder = _folder_of(commands)
    if strongest in ("read", "search"):
        features.asks = _asks(commands)
    if strongest == "search":
        features.sought = next((word for each in commands if each.program in GREPS for word in _plain(each)), "")
    _read_changes(features, line, commands, parts)
    features.scripts = tuple(
        (path, files) for each in commands if (files := files_written_by(each.stdin)) for path in each.writes_to
    )
    features.runs = tuple(word for each, effect in parts if effect == "run" for word in (each.program, *each.words[:2]))
    features.probes = strongest == "run" and any(each.stdin or {"-c", "-e"} & set(each.words) for each in commands)
    features.scripted = strongest == "run" and not features.probes and not _INTERPRETERS.isdisjoint(features.programs)
    _read_service(features, commands)
    features.waits = "wait" in effects or True in (params.get("runinbackground"), params.get("isbackground"))
    features.idles = features.waits and {*features.programs} <= {"sleep", "start-sleep"}
    features.fallback = _fallback(commands)
    _read_views(features, commands)
    return features


def _read_service(features: CallFeatures, commands: tuple[SimpleCommand, ...]) -> None:
    """Read what a command line asks of a server or a service, or changes there."""
    features.answers = features.fetches = not CLIENTS.isdisjoint(features.programs)
    features.address = _address(commands) if features.fetches else ""
    features.lists = any(each.program in _OPERATES or each.program in REMOTES for each in commands)
    features.sends = any(map(_sends, commands))
    features.operates = features.sends or any(each.program in _OPERATES and _changes_there(each) for each in commands)


def _fallback(commands: tuple[SimpleCommand, ...]) -> str:
    """Return what a command line says itself if a command of it fails."""
    said = (" ".join(each.words) for each in commands if each.before == "||" and each.program in ("echo", "printf"))
    return next(said, "")


def _address(commands: tuple[SimpleCommand, ...]) -> str:
    words = (word for each in commands if each.program in CLIENTS for word in each.words)
    return next(filter(_ADDRESS.match, words), "")


def _read_views(features: CallFeatures, commands: tuple[SimpleCommand, ...]) -> None:
    views = _shell_views(commands)
    # Who looks at the end of a log wants to know what has happened since, not what stands there.
    features.views = tuple(_in_folder(view, commands) for view in views if not _is_end_of_log(view))
    features.logs = len(features.views) < len(views)
    features.answers = features.answers or (features.logs and features.effect == "read")


_LOG: Final = re.compile(r"\.(?:log|out|err)(?:\.\d{1,3})?$|(?:^|/)logs?/")


def _is_end_of_log(view: View) -> bool:
    return view.start > 1 and view.end >= END and _LOG.search(view.path) is not None


def asks_service(line: str) -> bool:
    """Check whether a command line works on somebody's service, cluster or machine, and not on code."""
    return any(each.program in CLIENTS | REMOTES | _OPERATES for each in simple_commands(line))


def _sends(command: SimpleCommand) -> bool:
    """Check whether a command sends something to a service, which may change what others ask it."""
    if command.program in CLIENTS:
        return not _SENDS.isdisjoint(command.words)
    if command.program in REMOTES:
        playbook = command.program == "ansible-playbook"
        return playbook or _changes_there(command) or any(map(STATEMENTS.match, command.words))
    # Another installed program that is told to, such as one that migrates a database.
    own = bool(command.folder) or command.program in SCRIPT_PROGRAMS
    return _changes_there(command) and not own and effect_of(command) == "run"


def _changes_there(command: SimpleCommand) -> bool:
    return not _CHANGES.isdisjoint(word.partition("-")[0] for word in _plain(command)[:4])


def _read_changes(
    features: CallFeatures, line: str, commands: tuple[SimpleCommand, ...], parts: list[tuple[SimpleCommand, Effect]]
) -> None:
    """Read what a command line changes: files, one text by a patch, and what it takes back."""
    changing = [(each, _written(each, effect)) for each, effect in parts if changes_files(each, effect)]
    features.writes = tuple(path for _, paths in changing for path in paths)
    features.keeps = bool(changing) and all(_keeps_files(each) for each, _ in changing)
    if features.writes:
        folder = _folder_of(commands)
        features.swaps = tuple(swap for each, paths in changing for swap in swaps_of(each, paths, folder))
        features.change = " ".join(line.split()) if features.swaps or features.effect == "write" else ""
        features.contents = tuple(
            (each.writes_to[0], mark_of(each.stdin)) for each in commands if each.stdin and len(each.writes_to) == 1
        ) or placed_texts(commands[0], _written(*parts[0]))
    features.moves = any(map(moves_elsewhere, commands))
    features.unstashes = any(unstashes(each) for each in commands)
    features.aside = features.unstashes and any(map(stashes, commands))
    if not features.unstashes:
        features.restores = next((path for each in commands if (path := restored_path(each))), "")
    patches = [patch for each in commands if each.program in PATCHERS and (patch := read_patch(each.stdin))]
    if len(patches) == 1 and patches[0].paths and not features.restores:
        features.edit = Edit(patches[0].paths[0], patches[0].old, patches[0].new)
        features.prints = patches[0].prints
    features.copies = tuple(pair for each in commands if (pair := copied_files(each)))
    features.creates = (
        patches[0].creates if patches else all(each.writes_to or saves_file(each) for each, _ in changing)
    )


_KEEPS_FILES: Final = words_in("mkdir chmod chown")


def _keeps_files(command: SimpleCommand) -> bool:
    """Check whether a command that changes something leaves the content of every file as it is."""
    if command.writes_to:
        return False
    return command.program in _KEEPS_FILES or (command.program == "git" and git_keeps_files(command.words))


_INTERPRETERS: Final = SCRIPT_PROGRAMS | {"bash", "sh", "zsh"}
# `sed -n 10,20p`; `$` is the end of the file.
_RANGE: Final = re.compile(r"^(\d+)(?:,(\d+|\$))?p")
_ROWS: Final = re.compile(r"(?:NR ?>=? ?(\d+) ?&& ?)?NR ?<=? ?(\d+)")
_COUNTS: Final = re.compile(r"-(Skip|First|TotalCount|Head|Tail|Last)\s+(\d{1,9})\b", re.IGNORECASE)
_FILTERS: Final = words_in(
    "head tail grep egrep sed awk sort uniq wc cut tr less more jq cat xxd nl column rg select-object select-string"
)


def _is_filter(command: SimpleCommand, effect: Effect) -> bool:
    """Check whether a command only trims the output of the one before it, and so says nothing about what was asked."""
    return command.before == "|" and command.program in _FILTERS and effect != "write"  # as `| xargs sed -i` is


def _shell_target(commands: list[SimpleCommand], effect: Effect) -> str:
    """Return what commands of one effect ask: their programs and arguments, without options where they test."""
    parts: list[str] = []
    for each in commands:
        # A test run with another seed is another run, and so is a build with other options; the options of other tests
        # change what is shown of them.
        keeps = effect != "test" or each.program in BUILDERS or any("seed" in word for word in each.words)
        words = [word for word in each.words if keeps or not (word.startswith("-") or word.isdigit())]
        parts.append(" ".join((each.program, *words)))
        if each.stdin:
            parts.append(f"<{mark_of(each.stdin):x}")
    return " && ".join(parts)[:400]


def _plain(command: SimpleCommand) -> list[str]:
    return [word for word in command.words if not word.startswith("-")]


def _asks(commands: tuple[SimpleCommand, ...]) -> int:
    """Return the mark of what a command line names, whichever program it asks and by which options; 0 for nothing."""
    words = {word.strip("./").casefold() for each in commands for word in _plain(each)}
    words.discard("")
    return mark_of(" ".join(sorted(words))) if words else 0


def _purpose(commands: list[SimpleCommand]) -> str:
    """Return the mark of the programs, for an interpreter with its script or the code that it is given."""
    parts: list[str] = []
    for each in commands:
        what = ""
        if each.program in SCRIPT_PROGRAMS:
            what = each.stdin or next(iter(_plain(each)), "").rpartition("/")[2]
        parts.append(f"{each.program.rstrip('0123456789.')} {what}")
    return f"{mark_of(' && '.join(parts)):x}" if parts else ""


def _written(command: SimpleCommand, effect: Effect) -> tuple[str, ...]:
    """Return the files that a command changes; "" stands for any, as for a name that the shell puts together."""
    paths = _named_as_written(command, effect)
    return tuple(dict.fromkeys("" if path != ENVIRONMENT and _PUT_TOGETHER.search(path) else path for path in paths))


_PUT_TOGETHER: Final = re.compile(r"[$*?{`]")


def _named_as_written(command: SimpleCommand, effect: Effect) -> tuple[str, ...]:
    if command.writes_to and effect in ("write", "read", "none", "search"):
        return command.writes_to
    if effect == "install":
        return (ENVIRONMENT,)
    if effect == "run":
        return tuple(file for text in (*command.words, command.stdin) for file in files_written_by(text))
    patch = read_patch(command.stdin) if command.program in PATCHERS else None
    if patch is not None and patch.paths:
        return patch.paths
    return _named_files(command) or ("",)


def _named_files(command: SimpleCommand) -> tuple[str, ...]:
    """Return the files that a command changes, if it names them."""
    if command.program in ("cp", "mv") or restored_path(command):
        return command.words[-1:]
    if saved := saved_file(command):
        return (saved,)
    plain = tuple(_plain(command))
    if command.program in ("sed", "gsed", "perl"):  # behind their script; `xargs sed -i s/a/b/` names none
        scripts = {script for flag, script in pairwise(command.words) if flag in ("-e", "--expression", "-pe")}
        return tuple(path for path in plain if path not in scripts)[not scripts :]
    if command.program in ("black", "isort", "gofmt"):
        return plain if all("." in path.strip("./") for path in plain) else ()  # a folder has any
    return plain if command.program in ("touch", "rm", "mkdir", "tee") else ()


def _folder_of(commands: tuple[SimpleCommand, ...]) -> str:
    """Return the folder that a leading `cd` goes to, "" without one."""
    first = commands[0]
    return first.words[0].rstrip("/") if first.program == "cd" and len(first.words) == 1 else ""


def _in_folder(view: View, commands: tuple[SimpleCommand, ...]) -> View:
    """Return a view with the folder that a leading `cd` goes to, since the next call may name the whole path."""
    folder = _folder_of(commands)
    if not folder or view.path.startswith("/"):
        return view
    return View(f"{folder}/{view.path.removeprefix('./')}", view.start, view.end)


def _shell_views(commands: tuple[SimpleCommand, ...]) -> list[View]:
    found = (
        _shell_view(each, [later for later in commands[n + 1 : n + 3] if later.before == "|"])
        for n, each in enumerate(commands)
    )
    return list(islice(filter(None, found), 6))


def _shell_view(command: SimpleCommand, after: list[SimpleCommand]) -> View | None:
    program, files = command.program, _plain(command)
    found: View | None = None
    if not files:
        return None
    if program == "sed" and len(files) >= 2 and (span := _RANGE.match(files[0])):
        found = View(files[1], int(span[1]), _end(span))
    elif program in ("awk", "gawk") and len(files) == 2 and (rows := _ROWS.search(files[0])):
        found = View(files[1], int(rows[1] or 1), int(rows[2]))
    elif program in ("cat", "nl") and not command.writes_to and not command.stdin:
        found = _piped_view(files[-1], after)
    elif program.lower() in ("get-content", "gc"):
        found = _powershell_view(files[0], " ".join(word for each in (command, *after) for word in each.words))
    elif program in ("head", "tail") and command.before != "|":
        lines = _lines(command)
        found = View(files[-1], 1, lines) if program == "head" else View(files[-1], END - lines, END)
    return found


def _piped_view(path: str, after: list[SimpleCommand]) -> View | None:
    """Return the lines of a whole file that the filters behind it leave."""
    start, end = 1, END
    for each in after:
        if each.program == "sed" and (span := next(filter(None, map(_RANGE.match, each.words)), None)):
            start, end = int(span[1]), _end(span)
        elif each.program == "head":
            end = min(end, start + _lines(each) - 1)
        elif each.program == "tail":
            start = _lines(each) if any("+" in word for word in each.words) else END - _lines(each)
        elif each.program in ("grep", "wc", "awk"):
            return None
    return View(path, start, end)


def _powershell_view(path: str, options: str) -> View:
    """Return the lines that `Get-Content` shows, with the options of a `Select-Object` behind it."""
    numbers = {name.lower(): int(number) for name, number in _COUNTS.findall(options)}
    skip = numbers.get("skip", 0)
    first = next((numbers[name] for name in ("first", "totalcount", "head") if name in numbers), END)
    last = next((numbers[name] for name in ("tail", "last") if name in numbers), 0)
    return View(path, END - last, END) if last else View(path, skip + 1, min(END, skip + first))


def _end(span: re.Match[str]) -> int:
    return int(span[1]) if span[2] is None else END if span[2] == "$" else int(span[2])


def _lines(command: SimpleCommand) -> int:
    for word in command.words:
        digits = word.lstrip("-n+")
        if digits.isdigit():
            return int(digits)
    return 10
