"""Classify what tools return that read, search and change files.

A file's text may begin with any words, so only a short text that speaks of the file, or a tool's own mark, is an error.
Requirement G-81.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from tellback.guidance.observations.emptiness import name_words
from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.programs import FILE_FIELDS, is_patch
from tellback.guidance.observations.testruns import count_tests
from tellback.guidance.observations.values import is_list
from tellback.guidance.progress.effects import words_in

_PATHS: Final = (*FILE_FIELDS, "file", "absolute_path")
_PATTERNS: Final = ("pattern", "regex", "glob", "glob_pattern", "code_snippet", "class_name", "function_name")
_READS: Final = words_in("read view open cat show outline")
_FINDS: Final = words_in("grep glob find search ls list ripgrep codebase")
_EDITS: Final = words_in("edit multiedit replace patch write insert create apply update append editor modify notebook")
# Arguments of editors that keep one tool for reading and writing.
_OLD_TEXTS: Final = (
    "old_str", "old_string", "new_str", "new_string", "file_text", "insert_line", "patch", "diff", "edits",
)  # fmt: skip

# Characters. Editors report an error in a few lines, while a file may quote one: a longer text is what was asked for.
_SHORT: Final = 600

# Of Claude Code, OpenHands and Anthropic's editor, MCP servers.
_MARKED: Final = re.compile(
    r"\s{0,40}(?:<(?:tool_use_)?error>|ERROR:\n|MCP error -\d"
    r"|Error(?: from server| (?:reading|listing|searching) \w+)?: |E(?:NOENT|ISDIR|ACCES|PERM|EXIST)\b)",
    re.IGNORECASE,
)

# A short text about a path, in place of what stands there.
_ABOUT_A_FILE: Final = re.compile(
    r"(?:file|path|director(?:y|ies)|folder)\b.{0,300}?\b(?:does not exist|doesn't exist|not found|not exist|is not a"
    r"|too large|could not be|cannot be|must be absolute|is binary|not allowed|outside|already exists|beyond the end"
    r"|out of range)\b"
    r"|no such file or directory"
    r"|\b(?:could not|cannot|can't|failed to|unable to) (?:read|open|find|access|stat|load)\b|permission denied"
    r"|is a directory\b|\bE(?:NOENT|ISDIR|ACCES)\b",
    re.IGNORECASE | re.DOTALL,
)

_NUMBERED: Final = re.compile(r"^ {0,8}\d{1,7}(?:\t|\u2192|[:|] )", re.MULTILINE)  # lines of the file itself

_NO_FILE: Final = re.compile(
    r"\W*(?:the )?(?:file|path|directory)(?: (?:content|size)| (?P<name>\S{1,300}))?(?: \([^)\n]{1,40}\))?"
    r" (?:does not exist|not found|exceeds (?:the )?max\w*)\b[^\n]{0,200}$",
    re.IGNORECASE,
)

# How editors say that nothing was changed: Anthropic's editor, Claude Code, pi, moatless-tools, SWE-agent, Codex's and
# git's patches, Gemini CLI, Cline.
_NOT_CHANGED: Final = re.compile(
    r"\s{0,40}(?:<tool_use_error>|<error>\s{0,9}|ERROR:\s{0,9}|Error: )?(?:# \d+ SEARCH/REPLACE blocks? failed"
    r"|this is likely because the search block\b|the string to replace was not found"
    r"|no (?:replacement|changes?|edits?|match\w*)(?: text)? (?:was|were|to|made|found)\b"
    r"|[^\n]{0,120} (?:is|are) not (?:permitted|allowed)\b|invalid `?\w+`? parameter\b|parameter `\w+` is required"
    r"|could not (?:find|get|apply|edit|locate)\b"
    r"|(?:failed|unable) to (?:edit|apply|find|write|create|replace|parse)\b|the old_str and new_str are the same"
    r"|new string .{0,4000}? already exists in|string to replace not found|found \d+ matches of the string"
    r"|(?:old_string|old_str|search block|old text|the (?:old|search)\b.{0,40}) .{0,200}?(?:not found|did not match"
    r"|does not match|must match|not unique)"
    r"|file (?:already exists|has not been read|has been modified|does not exist|not found)\b"
    r"|your (?:proposed edit has introduced|edit was not applied)|multiple occurrences of|no sufficiently similar match"
    r"|expected \d+ occurrences? but found|apply_patch verification failed|the tool execution failed\b"
    r"|invalid (?:context|patch|hunk|line range|diff)\b|\w+ tried to use \w+ without value for required parameter\b"
    r"|error: (?:patch failed|corrupt patch|\S{1,300} patch does not apply)"
    r"|(?:patching file \S{1,300}\s{1,9})?hunk #\d+ failed|cannot (?:overwrite|edit|write|create)\b|access denied\b"
    r"|MCP error -\d)",
    re.IGNORECASE | re.DOTALL,
)
# moatless-tools quotes the text that it sought, of any length.
_STRING_MISSING: Final = re.compile(r"String '.*' not found in \S{1,300}\s*(?:$|Remember |Possible )", re.DOTALL)
_HUNK_FAILED: Final = re.compile(
    r"^(?:Hunk #\d+ FAILED|\d+ out of \d+ hunks? FAILED|error: patch failed: )[^\n]{0,200}", re.MULTILINE
)

# Matched at the beginning only, because a line that was found may hold such words.
_FOUND_NOTHING: Final = re.compile(
    r"\s{0,40}(?:no (?:matches|files?|results?|search results|code sections?"
    r"|matching \w+)(?: were)?(?: found)?\b|found 0 |0 matches|none found)",
    re.IGNORECASE,
)


def classify_file_tool(evidence: Evidence) -> Finding | None:
    """Classify the result of a tool that reads, searches or changes files; None for any other."""
    kind = file_tool_kind(evidence.tool, evidence.params)
    if kind is None and set(name_words(evidence.tool)) & _EDITS and _NOT_CHANGED.match(evidence.text[:6_000]):
        return Finding("error", evidence.text)  # its paths stand in the patch
    if kind == "edit" and evidence.error is not None and _NOT_CHANGED.match(evidence.error_text[:6_000]):
        return Finding("error", evidence.message)  # and not "no results", as what was sought is not there
    structured = evidence.data is not None and not isinstance(evidence.data, str)
    if kind is None or evidence.error is not None or structured:
        return None
    if kind == "edit":
        return _classify_edit(evidence.text, failed=evidence.failed)
    return None if evidence.failed else _classify_read(evidence, finds=kind == "find")


def _classify_read(evidence: Evidence, *, finds: bool) -> Finding | None:
    text = evidence.text
    if len(text) <= _SHORT:
        if finds and _FOUND_NOTHING.match(text):
            return Finding("no_results")
        speaks = _ABOUT_A_FILE.search(text) is not None
        marked = _MARKED.match(text) and not _of_other(text, evidence.params)
        if marked and (speaks or text.lstrip().startswith(("<", "ERROR:\n"))):
            return Finding("error", text)
        about = speaks and text.count("\n") < 3 and _NUMBERED.search(text) is None
        missing = _NO_FILE.match(text)
        # A note may begin so: "File upload not found in the menu".
        asked = missing is not None and (missing["name"] or "") in str(evidence.params)
        if asked or (about and _names_path(text, evidence.params)):
            return Finding("error", text)
    return Finding("ok") if text.strip() else None


def file_tool_kind(tool: str, params: Mapping[str, Any]) -> Literal["read", "find", "edit"] | None:
    """Return what a tool does with files, by its name and arguments; None unless both say so."""
    words = set(name_words(tool))
    has_path = any(isinstance(params.get(name), str) and params[name] for name in _PATHS) or is_list(
        params.get("files")
    )
    verb = params.get("command")
    if has_path and verb in ("view", "open", "read"):
        return "read"
    if has_path and (words & _EDITS or any(name in params for name in _OLD_TEXTS)):
        return "edit"
    is_patched = is_patch(verb) or any(isinstance(params.get(name), str) for name in ("patch", "input", "diff"))
    if words & _EDITS and is_patched:
        return "edit"
    if has_path and words & _READS:
        return "read"
    if words & _FINDS and (has_path or any(name in params for name in _PATTERNS)):
        return "find"
    return None


def _classify_edit(text: str, *, failed: bool) -> Finding | None:
    if _NOT_CHANGED.match(text[:6_000]) or _STRING_MISSING.match(text):
        return Finding("error", text)
    hunk = _HUNK_FAILED.search(text[-_SHORT:])
    if hunk is not None:
        return Finding("error", hunk.group())
    # moatless-tools runs the tests that belong to the file after each edit.
    counts = count_tests(text[-_SHORT:])
    if counts is not None and counts.bad:
        return Finding("error", str(counts))
    return None if failed or _MARKED.match(text) else Finding("ok")


# Node's, of a system call. A log that is read may consist of one.
_CALLED: Final = re.compile(r"\bE[A-Z]{3,9}: [^\n]{1,200}, \w{2,9} '(?:[^'\n]{0,300}[/\\])?(?P<name>[^'\n/\\]{1,300})'")


def _of_other(text: str, params: Mapping[str, Any]) -> bool:
    """Check for an error about another file than the one that was asked for."""
    called = _CALLED.search(text)
    asked = [params[name] for name in _PATHS if isinstance(params.get(name), str) and params[name].strip("./~")]
    return called is not None and bool(asked) and not any(called["name"] in path for path in asked)


def _names_path(text: str, params: Mapping[str, Any]) -> bool:
    paths = [params[name] for name in _PATHS if isinstance(params.get(name), str)]
    return text.startswith("The requested file ") or any(
        path.rstrip("/").rpartition("/")[2] in text for path in paths if path.strip("/")
    )
