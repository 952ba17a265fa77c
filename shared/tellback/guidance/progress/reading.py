"""Read the features of a tool call from its event: arguments, result, and what its outcome says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from tellback.contracts.guidance import ToolInvoked
from tellback.guidance.observations import emptiness
from tellback.guidance.observations.evidence import Verdict
from tellback.guidance.observations.testruns import count_tests
from tellback.guidance.observations.values import decoded_json, is_dict, is_list
from tellback.guidance.progress import substance
from tellback.guidance.progress.diagnosed import found_after_edit
from tellback.guidance.progress.effects import (
    EDITORS,
    INTERPRETERS,
    SHELLS,
    DeclaredEffect,
    Effect,
    is_known,
    named_effect,
    plain_name,
    presses,
    says_nothing,
    tool_effect,
)
from tellback.guidance.progress.failures import read_complaint, read_failure
from tellback.guidance.progress.features import END, SHOWN, CallFeatures, Edit, View
from tellback.guidance.progress.output import exit_code_of, printed_by
from tellback.guidance.progress.patches import read_patch
from tellback.guidance.progress.prints import only_prints
from tellback.guidance.progress.programs import files_written_by
from tellback.guidance.progress.shell_calls import shell_features
from tellback.guidance.progress.states import STATE_CHARS, is_dead, is_pending
from tellback.guidance.progress.substance import ERROR_CHARS, LINE_CHARS, last_line, line_marks, mark_of
from tellback.guidance.repeats import may_remark, only_waits
from tellback.guidance.shell import joined_command

_HIDDEN: Final = "[redacted: "  # in place of a line with a secret
_WINDOW: Final = 100  # lines that SWE-agent's `open` shows
_UNCHANGED: Final = re.compile(r'File unchanged since|\{"type": ?"file_unchanged"')  # Claude Code
_MORE_CHARS: Final = 20  # behind what `|| echo` printed, such as an exit code
_PAGE_LINES: Final = 2  # line ends of a page of three lines; "Clicked." is none
_RECORD_CHARS: Final = 400  # of a record that may be empty
_PAGE: Final = 2_000  # lines that `Read` shows
# Of the results of coding agents 30 % are that short, and half of these, such as "(no output)", were there before.
_SHORT_CHARS: Final = 200

# Names of arguments, in lower case and without underscores: programs spell them in every way.
_PATHS: Final = (
    "filepath", "path", "filename", "file", "notebookpath", "targetfile", "absolutepath", "relativepath",
    "relativeworkspacepath",
)  # fmt: skip
_OLDS: Final = ("oldstring", "oldstr", "oldtext", "search", "find")
_NEWS: Final = (
    "newstring", "newstr", "newtext", "replace", "replacement", "content", "filetext", "text", "codeedit", "contents",
)  # fmt: skip
_STARTS: Final = ("offset", "startline", "linenumber", "startlineoneindexed", "linestart", "fromline")
_ENDS: Final = ("endline", "endlineoneindexedinclusive", "lineend", "toline")
_PATCHES: Final = ("patch", "input", "diff", "command")
_COMMANDS: Final = ("command", "cmd", "script", "code", "commandline")
_QUERIES: Final = (
    "query", "pattern", "q", "searchterm", "regex", "keyword", "codesnippet", "classname", "functionname",
)  # fmt: skip
_TARGETS: Final = {name: rank for rank, name in enumerate((*_QUERIES, *_PATHS))}


def call_features(event: ToolInvoked, verdict: Verdict, declared: DeclaredEffect | None = None) -> CallFeatures:
    """Return the features of a call; `verdict` is what observation says it counts as, `declared` what its host says."""
    features = _asked(event.tool, event.params, declared)
    answer = event.error or event.result or ""
    said = _substance_of(answer)
    features.news, text = said.news, said.text
    if verdict == "neutral":
        features.neutral = True
        return features
    features.failed = verdict == "failure"
    outcome = event.outcome
    if outcome is not None:
        # That a service is down says nothing of the program that asked it.
        features.retry_asked = outcome.retry_after is not None or (outcome.retryable and not features.programs)
        features.empty = outcome.code == "no_results"
    code = exit_code_of(answer) if features.failed else None
    _read_result(features, said, reported=event.error is not None or code not in (None, 0))
    # Two command lines with a secret look alike, whatever they do.
    if features.programs and _HIDDEN in features.shown:
        features.unseen = True
    if features.failed:
        if not features.error and code is not None and code > 1:  # an exit of 1 may be an answer
            features.error = f"exit code {code}, without output"
        if features.error and features.edit is None:
            read_complaint(features, text, " ".join(map(str, event.params.values())))
    if features.faulty or features.effect in ("read", "search", "run", "test", "wait"):
        if len(text) >= LINE_CHARS:
            shown = substance.without_places(text) if features.failed else text  # an edit above a fault moves it
            features.lines = line_marks(shown, " ".join(map(str, event.params.values())))
        features.last = said.last
    return features


class _Substance(NamedTuple):
    """The reading of a result that does not depend on its call."""

    news: int
    text: str
    last: str
    is_empty: bool
    is_unseen: bool
    asks_to_retry: bool


def _substance_of(result: str) -> _Substance:
    return _of_short(result) if len(result) <= _SHORT_CHARS else _read_substance(result)


def _read_substance(result: str) -> _Substance:
    whole = printed_by(result)
    text = substance.ends_of(whole)
    return _Substance(
        substance.fingerprint(whole),
        text,
        last_line(text)[:ERROR_CHARS],
        _is_empty(text),
        substance.is_picture(text) or substance.changed_rows(text),
        len(text) <= _SHORT_CHARS and substance.asks_to_retry(text),
    )


def _is_empty(text: str) -> bool:
    """Check whether a search found nothing; in a record one empty list beside others or beside a text says little."""
    if not text.lstrip().startswith("{") or len(text) > _RECORD_CHARS:
        return substance.is_empty(text)
    return emptiness.is_empty(decoded_json(text))


_of_short: Final = lru_cache(maxsize=1024)(_read_substance)


def _read_answer(features: CallFeatures, said: _Substance) -> None:
    text = said.text
    if features.restores and "No local changes to save" in text[:ERROR_CHARS]:
        features.restores = ""
    is_page = text.count("\n") >= _PAGE_LINES
    if features.answers:
        whole = is_page and not features.programs and features.effect != "read"
        worked = whole and features.effect == "write" and substance.says_it_worked(text)
        features.fault = substance.fault_line(text)
        features.faulty = (whole or bool(features.fault)) and not worked
    elif (features.effect in ("read", "wait") or features.waits) and not features.views:
        features.state = text if len(text) <= STATE_CHARS else ""
    polls = features.effect in ("read", "run") or (features.effect == "search" and features.lists)
    if polls and not features.views:
        features.waits = features.waits or is_pending(text, listed=features.lists and features.effect != "run")
    acts = features.effect == "write" and not (is_page or features.failed)
    features.presses = acts and presses(features.tool)
    features.unseen = features.presses or (said.is_unseen and not features.failed)
    if features.fallback and features.effect == "search":
        bare = text.strip()
        features.empty = bare.startswith(features.fallback) and len(bare) < len(features.fallback) + _MORE_CHARS


def _read_result(features: CallFeatures, said: _Substance, *, reported: bool) -> None:
    text = said.text
    _read_answer(features, said)
    features.absent = features.fetches and substance.is_absent(text)
    features.unchanged = bool(features.views) and _UNCHANGED.match(text) is not None
    features.empty = features.empty or (features.effect in ("search", "read") and said.is_empty)
    if features.empty:  # lines beyond the end
        features.views = tuple(View(view.path, END, END) for view in features.views)
    if features.failed:
        features.retry_asked = features.retry_asked or substance.asks_to_retry(text)
    elif said.asks_to_retry and not (features.views or features.programs):
        features.retry_asked = True
    if (features.effect == "wait" or features.waits) and not said.is_empty:
        features.dead = is_dead(text)
    if features.effect in ("run", "test", "wait", "write"):
        features.tests = count_tests(text)
    runs = features.effect in ("run", "test", "install") or features.tests is not None
    if features.failed and features.tests is not None and not (features.tests.bad or features.tests.passed):
        features.tests = None  # none ran, for a reason that is no test's
    if features.tests is not None:
        features.failed = features.tests.bad > 0
    if features.failed:
        read_failure(features, text, runs=runs, reported=reported)
    elif features.edit is not None:
        features.wrong = found_after_edit(text)[:ERROR_CHARS]


def _asked(tool: str, given: Mapping[str, Any], declared: DeclaredEffect | None) -> CallFeatures:
    shape = _shape_of(tool, given)
    params = given if shape.plain is None else dict(zip(shape.plain, given.values(), strict=True))
    if shape.is_program and (features := _asked_of_program(tool, shape, params)) is not None:
        return features
    named = shape.effect if declared is None else None
    effect, target = named or tool_effect(tool, params, declared), _target(shape, params)
    features = CallFeatures(tool, effect, target, _shown(tool, target, params), bare=shape.bare)
    features.form = shape.form or _form_with_methods(tool, params)
    if effect == "search":
        features.sought = _text(params, shape.queries) or ""
        return features
    path = _text(params, _PATHS) if effect in ("write", "read") else None
    features.answers = effect in ("write", "run", "read") and not path and "files" not in params
    features.sends = effect == "run" and says_nothing(tool) and str(params.get("method", "")).upper() not in _ASKING
    features.idles = effect == "wait" and only_waits(params)
    features.fetches = "url" in params or "uri" in params or (effect == "read" and not is_known(tool))
    if effect == "write":
        _read_writing(features, shape.name, path or "", params)
    elif effect == "read" and path:
        features.views = (_view(path, params, shape.name),)
    elif effect == "read" and is_list(spans := params.get("files")):
        plain = [_in_plain(each) for each in spans[:4] if is_dict(each) and not each.get("span_ids")]
        features.views = tuple(_view(_text(each, _PATHS) or "", each, shape.name) for each in plain)
    return features


# Lines that no shell has: an import, an assignment with spaces, a call with parentheses.
_CODE: Final = re.compile(
    r"^\s{0,40}(?:import \w|from [\w.]{1,80} import |(?:const|let|var|def|class) \w|\w{1,80} = |[\w.]{1,80}\((?!\)))",
    re.MULTILINE,
)


def _asked_of_program(tool: str, shape: _Shape, params: Mapping[str, Any]) -> CallFeatures | None:
    name = shape.name
    is_code = "code" in params or _CODE.search(_text(params, ("script",)) or "") is not None
    runs_code = name in INTERPRETERS or (name == "execute" and is_code)
    if name in SHELLS or (not runs_code and shape.may_be_shell and _text(params, _COMMANDS) is not None):
        return shell_features(tool, command_line(params), params)
    if runs_code:
        code = _text(params, _COMMANDS) or ""
        features = shell_features(tool, f"python <<'EOF'\n{code}\nEOF", params)
        features.shown = _shown(tool, code, params)
        return features
    if name in EDITORS:
        return _editor_features(tool, _text(params, _COMMANDS) or "", params, _target(shape, params))
    return None


def _read_writing(features: CallFeatures, name: str, path: str, params: Mapping[str, Any]) -> None:
    _read_edit(features, path, params, creates="insert" not in name)
    features.writes = (path,)
    if features.edit is None and (patch := read_patch(_text(params, _PATCHES) or "")) is not None:
        features.writes = patch.paths or (path,)
        features.edit = Edit(features.writes[0], patch.old, patch.new)
        features.change = _change(features.edit)
        features.creates, features.prints, features.answers = patch.creates, patch.prints, False
        return
    if features.creates and features.edit is not None and path:
        features.contents = ((path, features.edit.new),)
    if features.creates and path and (files := files_written_by(_text(params, _NEWS) or "")):
        features.scripts = ((path, files),)
    if name == "undo_edit":
        features.restores = path or "*"


# Arguments whose value, not only name, says what a tool is asked to do.
_METHODS: Final = ("method", "action", "operation", "endpoint", "url")
_ASKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HAS_METHOD: Final = frozenset(_METHODS)


def _form_with_methods(tool: str, params: Mapping[str, Any]) -> str:
    values = [str(params[name])[:_SHORT_CHARS] for name in _METHODS if name in params]
    return " ".join([tool, *sorted(params), *values])


class _Shape(msgspec.Struct, frozen=True, gc=False):
    """The reading of a call's tool and of the names of its arguments, whatever their values.

    `plain` has the names in plain spelling, None if they are given so, `targets` those that may be its target, and
    `queries` those of them that ask. `effect` is None, and `form` "", if values belong to it too.
    """

    name: str
    is_program: bool  # perhaps: a shell, an interpreter or an editor
    may_be_shell: bool
    effect: Effect | None
    plain: tuple[str, ...] | None
    targets: tuple[str, ...]
    queries: tuple[str, ...]
    form: str
    bare: bool  # as in `CallFeatures`


def _shape_of(tool: str, params: Mapping[str, Any]) -> _Shape:
    names = tuple(params)
    return (_known_shape if sum(map(len, names)) <= _SHORT_CHARS else _read_shape)(tool, *names)


def _read_shape(tool: str, *names: str) -> _Shape:
    plain, name = tuple(map(_plain_spelling, names)), plain_name(tool)
    targets = tuple(sorted(_TARGETS.keys() & plain, key=_TARGETS.__getitem__))
    says_so = "cmd" in plain or "bash" in name or "shell" in name or name in ("execute", "launch_process")
    server = tool.lower().removesuffix(name)
    served = "command" in plain and ("shell" in server or "terminal" in server)  # `mcp__shell__run`
    may_be_shell = (says_so or served) and not is_known(tool)
    return _Shape(
        name=name,
        is_program=may_be_shell or name in SHELLS or name in INTERPRETERS or name in EDITORS,
        may_be_shell=may_be_shell,
        effect=named_effect(tool, plain),
        plain=None if plain == names else plain,
        targets=targets,
        queries=tuple(target for target in targets if target in _QUERIES),
        form=" ".join([tool, *sorted({*plain})]) if _HAS_METHOD.isdisjoint(plain) else "",
        bare=not may_remark(tool, names),
    )


def _in_plain(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {_plain_spelling(name): value for name, value in params.items()}


def _plain_spelling(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_known_shape: Final = lru_cache(maxsize=1024)(_read_shape)  # a fleet's tools have few sets of names


def _text(params: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        if isinstance(value := params.get(name), str):
            return value
    return None


def command_line(params: Mapping[str, Any]) -> str:
    """Return the command line that a call of a shell runs, "" for any other."""
    command = next((params[name] for name in _COMMANDS if name in params), "")
    if is_list(command):
        parts = [str(part) for part in command]
        if parts[:1] == ["apply_patch"] and len(parts) == 2:
            return f"apply_patch <<'End of the patch'\n{parts[1]}\nEnd of the patch"
        return joined_command(parts)
    return command if isinstance(command, str) else ""


def _number(params: Mapping[str, Any], *names: str) -> int | None:
    return next((value for name in names if type(value := params.get(name)) is int), None)


def _view(path: str, params: Mapping[str, Any], name: str) -> View:
    span = params.get("viewrange")
    if is_list(span) and len(span) == 2 and all(type(each) is int for each in span):
        return View(path, span[0], END if span[1] < 0 else span[1])
    start = _number(params, *_STARTS)
    if start is None:
        return View(path, 1, END)
    end, limit = _number(params, *_ENDS), _number(params, "limit", "maxlines", "numlines")
    if end is None:
        end = start + (limit or (_WINDOW if name == "open" else _PAGE)) - 1
    return View(path, start, end)


def _read_edit(features: CallFeatures, path: str, params: Mapping[str, Any], *, creates: bool) -> None:
    """Read which text is replaced by which; `creates` says that without an old text the whole file is written."""
    old, new = _text(params, _OLDS) or "", _text(params, _NEWS)
    if not old and new is None:
        return
    features.edit = Edit(path, mark_of(old), mark_of(new or ""))
    features.change = _change(features.edit)
    features.creates = creates and not old
    features.prints = not features.creates and only_prints(old, new or "")


def _change(edit: Edit) -> str:
    return f"{edit.path.rpartition('/')[2]} {edit.old} {edit.new}"


def _editor_features(tool: str, command: str, params: Mapping[str, Any], target: str) -> CallFeatures:
    path = _text(params, _PATHS) or ""
    features = CallFeatures(tool, "read" if command == "view" else "write", target, f"{command} {path}"[:SHOWN])
    if command == "view":
        features.views = (_view(path, params, command),)
    else:
        _read_writing(features, command, path, params)
    return features


def _target(shape: _Shape, params: Mapping[str, Any]) -> str:
    for name in shape.targets:
        value = params[name]
        if isinstance(value, str):
            return value[:200]
    return ""


def _shown(tool: str, target: str, params: Mapping[str, Any]) -> str:
    target = target or _text(params, ("url", "uri", *params)) or ""
    return f"{tool} {' '.join(target.split(None, SHOWN))}".strip()[:SHOWN]  # of a long text, so many words are enough
