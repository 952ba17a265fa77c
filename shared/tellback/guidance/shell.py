"""Split a shell's command line into its simple commands, as far as that is possible without running it.

It knows lists, pipelines, quotes, here-documents, redirections, substitutions of processes, what a variable is set to
(`A=$(cat b)`), and the usual wrappers (`cd x &&`, `timeout 60`, `A=b`, `bash -c`). Other substitutions are left inside
their words. It never raises, and takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

Before = Literal["", ";", "&&", "||", "|", "&"]

# Longer lines are cut: their beginning shows what they do, and a worker reads every one.
COMMAND_CHARS: Final = 20_000
# One in four command lines of coding agents is that short and was there before, such as `git status`.
_SHORT_CHARS: Final = 200
_NESTED: Final = 2  # `bash -c "bash -c ..."`

# Every repeat is possessive, so a quote that never ends costs linear time; `stray` takes what no other group does.
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]++|\\\n)
    |(?P<substitution>[<>]\((?:[^()]|\([^()]*+\))*+\))
    |(?P<redirect>\d?(?:&>>?|<<<|<<-?|>>|>\||>|<)(?:&\d?-?)?)
    |(?P<operator>&&|\|\||;;?|\|&?|\n|&|[()])
    |(?P<word>(?:'[^']*+'|"(?:\\.|[^"\\])*+"|\$\((?:[^()]|\([^()]*+\))*+\)|`[^`]*+`|\\.|[^\s'"\\;|&<>()`])++)
    |(?P<stray>.)""",
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_CAPTURED: Final = re.compile(r"[A-Za-z_]\w*\+?=\"?\$\((?!\()(.*)\)\"?$", re.DOTALL)
_DECLARING: Final = frozenset({"export", "local", "readonly", "declare"})
_QUOTES: Final = re.compile(r"'([^']*+)'|\"((?:\\.|[^\"\\])*+)\"|\\(.)", re.DOTALL)
_OPENING: Final = frozenset({"do", "then", "else", "elif", "if", "while", "until", "!", "{"})
_CLOSING: Final = frozenset({"done", "fi", "}", "esac"})
# Number of arguments of its own that a wrapper takes before the command that it runs.
_WRAPPERS: Final = {
    **dict.fromkeys(("sudo", "nohup", "env", "command", "exec", "nice", "stdbuf", "xargs", "npx", "bunx", "pnpx"), 0),
    **dict.fromkeys(("time", "doas", "setsid", "ionice", "taskset", "xvfb-run", "unbuffer"), 0),
    **dict.fromkeys(("timeout", "gtimeout"), 1),
}
# Programs that run another one, with the words behind which it stands; `npm run test` runs a script of that name.
_RUNNERS: Final = {
    **dict.fromkeys(
        ("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "bundle", "conda", "coverage"), ("run", "exec", "x")
    ),
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun"), ("exec", "x", "dlx")),
    "mise": ("exec",),
}
# Shells that run the line behind an option; those of Windows take all that follows for it.
_SHELLS_OF_WINDOWS: Final = frozenset({"powershell", "powershell.exe", "pwsh", "cmd", "cmd.exe"})
_SHELLS: Final = _SHELLS_OF_WINDOWS | {"bash", "sh", "zsh"}
_GIVES_LINE: Final = re.compile(r"-\w*c$|-command$|/c$", re.IGNORECASE)
# Options of wrappers that take the next word.
_WITH_VALUE: Final = frozenset({"-I", "-n", "-P", "-s", "-k", "-u", "-L", "-c", "-f"})
_NAMES_OF_XARGS: Final = frozenset({"-a", "--arg-file"})


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its words, without wrappers; `before` is the operator in front of it.

    `writes_to` has the files that its output goes to, `reads_from` the file that its input comes from, `stdin` the text
    of its here-document or here-string; `silent` means that its errors go to `/dev/null`. `folder` is the path in front
    of the program's name, if it was called by one.
    """

    program: str
    words: tuple[str, ...]
    before: Before = ""
    writes_to: tuple[str, ...] = ()
    stdin: str = ""
    silent: bool = False
    folder: str = ""
    reads_from: str = ""


def simple_commands(command: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands of a line, in order."""
    return _of_short(command) if len(command) <= _SHORT_CHARS else _commands_of(command[:COMMAND_CHARS])


def joined_command(words: list[str]) -> str:
    """Return the command line of a list of words, as Codex gives it: `["bash", "-lc", "cd /srv && pytest"]`."""
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)


class _Reader:
    """The simple command that is being read, and those before it: with their wrappers and quotes, but no program."""

    def __init__(self) -> None:
        self.found: list[SimpleCommand] = []
        self.before: Before = ""
        self.words: list[str] = []
        self.files: list[str] = []
        self.stdin = ""
        self.silent = False
        self.reads_from = ""

    def end(self, before: Before) -> None:
        if self.words or self.files:
            read = tuple(self.words), self.before, tuple(self.files), self.stdin, self.silent
            self.found.append(SimpleCommand("", *read, reads_from=self.reads_from))
            self.words, self.files, self.stdin, self.silent, self.reads_from = [], [], "", False, ""
        self.before = before

    def redirect(self, operator: str, name: str) -> None:
        self.silent |= name == "/dev/null" and operator[0] in "2&"
        if ">" in operator and name != "/dev/null":
            self.files.append(name)
        elif operator == "<":
            self.reads_from = name
        elif operator == "<<<":
            self.stdin = name


# A path of Windows, whose separators are no escapes in PowerShell.
_WINDOWS_PATH: Final = re.compile(r"(?<![\w\\/])(?:[A-Z]:|\.{1,2})(?:\\[\w.@-]+)+")


def _commands_of(line: str) -> tuple[SimpleCommand, ...]:
    if ":\\" in line or ".\\" in line:
        line = _WINDOWS_PATH.sub(lambda path: path[0].replace("\\", "/"), line)
    return tuple(_split(line, 0))


_of_short: Final = lru_cache(maxsize=1024)(_commands_of)


def _split(text: str, depth: int) -> list[SimpleCommand]:
    reader = _Reader()
    place, pending, delimiters = 0, "", list[str]()
    inner: list[SimpleCommand] = []
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None, "every character is a token"
        place = match.end()
        token, kind = match.group(), match.lastgroup
        if kind == "redirect":
            pending = "" if "&" in token[1:] and not token.startswith("&") else token
        elif kind == "operator":
            if token == "\n" and delimiters:  # noqa: S105 - a token of the shell
                reader.stdin, place = _here_document(text, place, delimiters.pop(0))
            reader.end(_OPERATORS.get(token, ";"))
            pending = ""
        elif kind in ("word", "stray", "substitution"):
            if kind == "substitution" and depth < _NESTED:  # `diff <(git show HEAD:a) a`
                inner += _split(token[2:-1], depth + 1)
            if token.startswith("#") and kind == "word" and not pending:
                end = text.find("\n", place)
                place = len(text) if end < 0 else end
            elif pending.startswith("<<") and pending != "<<<":
                delimiters.append(unquoted(token))
                pending = ""
            elif pending:
                reader.redirect(pending, unquoted(token))
                pending = ""
            else:
                reader.words.append(token)
    reader.end("")
    return [*inner, *(each for raw in reader.found for each in _unwrapped(raw, depth))]


# The other operators end a command.
_OPERATORS: Final[Mapping[str, Before]] = {"&&": "&&", "||": "||", "&": "&", "|": "|", "|&": "|"}


def _here_document(text: str, place: int, delimiter: str) -> tuple[str, int]:
    """Return the body and the place behind it; without an end it takes the rest."""
    mark = f"\n{delimiter}"
    end = place - 1 if text.startswith(mark, place - 1) else text.find(mark, place)
    while end >= 0 and text[end + len(mark) : end + len(mark) + 1] not in ("", "\n", "\r", ")"):
        end = text.find(mark, end + 1)
    return (text[place:], len(text)) if end < 0 else (text[place : end + 1], end + len(mark))


def unquoted(word: str) -> str:
    """Return a word without its quotes and escapes."""
    if "'" not in word and '"' not in word and "\\" not in word:
        return word
    return _QUOTES.sub(lambda match: match[1] if match[1] is not None else match[2] or match[3] or "", word)


def _unwrapped(raw: SimpleCommand, depth: int) -> list[SimpleCommand]:
    rest = _without_wrappers(list(raw.words))
    if not rest or rest[0] in _DECLARING:
        captured = [match[1] for word in raw.words if (match := _CAPTURED.match(word))] if depth < _NESTED else ()
        if captured:  # `X=$(kubectl get pods)`
            return [each for line in captured for each in _split(line, depth + 1)]
    if not rest:
        return [SimpleCommand("", (), raw.before, raw.writes_to, raw.stdin, raw.silent)] if raw.writes_to else []
    folder, _, name = unquoted(rest[0]).rpartition("/")
    if name == "eval" and depth < _NESTED:
        return _nested(rest[1:], raw, depth)
    if name in _SHELLS and depth < _NESTED:
        flag = next((n for n, word in enumerate(rest[1:], 1) if _GIVES_LINE.match(word)), 0)
        if flag and len(rest) > flag + 1:
            line = rest[flag + 1 :] if name in _SHELLS_OF_WINDOWS else rest[flag + 1 : flag + 2]
            return _nested(line, raw, depth)
    words = tuple(map(unquoted, rest[1:]))
    return [
        SimpleCommand(name, words, raw.before, raw.writes_to, raw.stdin, raw.silent, folder, reads_from=raw.reads_from)
    ]


def _nested(words: list[str], raw: SimpleCommand, depth: int) -> list[SimpleCommand]:
    """Return the commands of a line that a shell is given, whose output goes where that of the shell goes."""
    found = _split(" ".join(map(unquoted, words)), depth + 1)
    if found and raw.writes_to:
        found[-1] = replace(found[-1], writes_to=(*found[-1].writes_to, *raw.writes_to))
    return found


def _without_wrappers(rest: list[str]) -> list[str]:
    while rest:
        name = rest[0].rpartition("/")[2]
        if rest[0] in _OPENING or _ASSIGNMENT.match(rest[0]) or rest[0].startswith("#"):
            del rest[0]
        elif rest[0] in _CLOSING:
            return []
        elif name in _WRAPPERS and rest[:2] != ["command", "-v"]:  # which runs nothing
            del rest[0]
            while rest and rest[0].startswith("-"):
                takes = rest[0] in _WITH_VALUE or (name == "xargs" and rest[0] in _NAMES_OF_XARGS)
                del rest[: 1 + takes]
            del rest[: _WRAPPERS[name]]
        # `mise run test` runs a task of that name, and no program `test`.
        elif len(rest) > 2 and rest[1] in _RUNNERS.get(name, ()):
            del rest[: 3 if rest[2:3] == ["--"] else 2]
        elif name in ("python", "python3") and len(rest) > 2 and rest[1] == "-m":
            del rest[:2]
        else:
            break
    return rest
