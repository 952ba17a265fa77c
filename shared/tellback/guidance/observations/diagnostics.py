"""Find the line in a program's output that says that the program failed.

The text must be what a program printed about its own work, not a file or a log that was read: source that contains
`raise ValueError` is no failure. `programs` decides which it is. All patterns begin at a line and bound their gaps.
Requirement G-81.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.observations.testruns import count_tests, reason_of_failure
from tellback.guidance.observations.tracebacks import raised_line

_LINES: Final = re.MULTILINE

# How compilers and git label an error in English, German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian,
# Chinese, Japanese and Korean.
ERROR_WORDS: Final = (
    r"error|(?:error )?fatal|fatal error|Fehler|Schwerwiegend|[Ee]rreur|erro|errore|fatale|fout|fataal|b\u0142\u0105d"
    r"|\u043e\u0448\u0438\u0431\u043a\u0430|\u9519\u8bef|\u81f4\u547d\u9519\u8bef|\u932f\u8aa4|\u30a8\u30e9\u30fc"
    r"|\u81f4\u547d\u7684\u30a8\u30e9\u30fc|\uc624\ub958"
)

# Runtimes other than Python, and the kernel.
_CRASHES: Final = re.compile(
    r"^(?:panic: [^\n]{1,300}$(?=\n\n?(?:goroutine \d|\[signal))|fatal error: [^\n]{1,200}$(?=\n\ngoroutine)"
    r"|Exception in thread \"[^\"\n]{1,100}\" [^\n]{1,300}"
    # The message stands below the place, since 1.73.
    r"|thread '[^'\n]{1,100}'(?: \(\d+\))? panicked at (?:[^\n]{1,300}:\d+:\n)?[^\n]{1,300}"
    r"|thread \d{1,10} panic: [^\n]{1,300}"  # Zig
    r"|(?:Uncaught )?(?:[A-Z]\w{0,60})?(?:Error"
    r"|Exception)(?: \[\w+\])?: [^\n]{1,300}$(?=\n(?:[^\n]{0,200}\n){0,3}? +at [^\n]{1,300}:\d+)"
    r"|(?:[A-Z]{1,20} )?ERROR: [^\n]{1,300}$(?=\n +at: \S)"  # Godot
    r"|(?:(?:file://)?(?:/|[A-Z]:|node:)[^\s:]{1,300}|\[eval\]):\d+\n[^\n]{0,300}\n[ \t]{0,300}\^+\n(?:\n"
    r"|[ \t])*(?P<thrown>[^\n]{1,300})?"  # Node
    r"|Error: Cannot find module '[^'\n]{1,300}'$(?=\nRequire stack)| {2}\| (?:Base)?ExceptionGroup: [^\n]{1,300}"
    r"|(?:\S{1,200}\.rb|-e|<internal:\S{1,200}>):\d+:in [^\n]{1,200}: [^\n]{1,300} \([A-Z][\w:]{0,100}\)$"
    r"|(?:PHP )?(?:Fatal|Parse) error: {1,4}[^\n]{1,300} on line \d+$|PHP Fatal error: [^\n]{1,300}"
    r"|BEGIN failed--compilation aborted[^\n]{0,200}|syntax error at \S{1,200} line \d+, near [^\n]{1,200}"  # Perl
    r"|error: (?:Uncaught [^\n]{1,300}|[^\n]{1,300}$(?=\n {4}at \S"
    r"|(?:\n[^\n]{0,300}){0,12}?\n\nBun v\d[^\n]{1,40}\s*\Z))"
    r"|(?<=\S\n\n)Node\.js v\d{1,3}(?:\.\d{1,3}){2}\s*\Z"  # below a trace and a blank line; a list of versions has none
    # R names the call first, and adds that it halted.
    r"|Error(?: in [^\n]{1,200} "
    r"|): ?[^\n]{0,300}(?:\n {2}[^\n]{1,300})?$(?=\n(?:[^\n]{0,200}\n){0,12}?Execution halted$)|Execution halted$"
    r"|Unhandled [A-Z][\w:-]{1,80} in thread [^\n]{1,200}|(?:Error: )?[Uu]nhandled [Ee]xception[.:][^\n]{0,300}"
    r"|(?:Runtime|init) terminating (?:during boot|in do_boot) [^\n]{1,300}"  # Erlang
    r"|terminate called (?:after throwing|without an active)[^\n]{0,200}|ERROR: LoadError: [^\n]{1,300}"
    r"|\*\* \([A-Z][\w.]{0,100}\) [^\n]{1,300}|={1,2}\d{1,9}={1,2} ?ERROR: \w{1,30}Sanitizer[^\n]{0,200}"
    r"|[^\n]{1,300}: Assertion [`'][^\n]{1,300}' failed\.$"
    r"|lua[\d.]{0,6}: (?:\S{1,200}|\(command line\)):\d+: [^\n]{1,300}"
    r"|ImportError while loading conftest [^\n]{1,300}|Error: Could not find or load main class [^\n]{1,200}"
    r"|Fatal error: exception [^\n]{1,300}"  # Java; OCaml
    r"|[^\n]{1,300}$(?=\n {4}while executing\n\")"  # Tcl
    r"|FATAL ERROR: [^\n]{1,200}(?:out of memory|Allocation failed)[^\n]{0,100}"  # V8
    r"|In \S{1,100}\.php line \d+:\n\s{1,200}(?P<said>\S[^\n]{1,300})"  # Symfony's console, as in Composer
    r"|Segmentation fault\b[^\n]{0,80}|Aborted \(core dumped\)|Killed$|Bus error\b[^\n]{0,80}"
    r"|(?:[^\n]{0,200}: line \d+:| {5}) {1,9}\d+ (?:Killed|Segmentation fault|Aborted|Terminated"
    r"|File size limit exceeded)\b[^\n]{0,200})",
    _LINES,
)

# One of these is in every text that `_CRASHES` finds, and so is one of `_TOTAL_WORDS` for `_TOTALS`: to look for them
# first saves a third of the time that a long healthy output takes.
_CRASH_WORDS: Final = (
    *("panic", "rror:", "Error", "ERROR", " error ", "error at", "xception", "bort", "fault", "Killed", "Terminated"),
    *("exceeded", "terminat", "halted", "Unhandled", "failed", "** (", ".rb:", "<internal:", ".php line ", "lua"),
    *("Bus error", "while executing", "Node.js v"),
)
_PLACE: Final = r"[^\s:()]{1,300}"  # a file; names with spaces are rare in diagnostics and common in prose

_COMPILERS: Final = re.compile(
    rf"^(?:{_PLACE}:\d+(?::\d+)?: error:(?: \[[\w-]{{1,60}}\]){{0,3}}\n[^\n]{{1,300}}"  # GHC: the message is below
    rf"|{_PLACE}:\d+(?::\d+)?: (?:fatal )?error: [^\n]{{1,300}}"  # gcc, clang, javac, mypy
    rf"|{_PLACE}:\d+(?:[:.]\d+)?: ?(?:(?:internal compiler|parser|runtime|validity) )?(?:{ERROR_WORDS}) ?[:\uff1a]"
    r"[^\n]{1,300}"
    rf"|{_PLACE}: line \d+, col \d+, Error\b[^\n]{{1,300}}"  # ESLint
    rf"|{_PLACE}:\d+: syntax error[,:] [^\n]{{1,300}}"  # Ruby, yacc
    # OCaml and Fortran show the source between the place and the message.
    rf"|(?:File \"[^\"\n]{{1,300}}\", lines? \d+[^\n]{{0,80}}|{_PLACE}:\d+:\d+):\n(?:[^\n]{{0,300}}\n){{0,9}}?"
    r"(?P<said>(?:Fatal )?Error: [^\n]{1,300})"
    r"|error: cannot (?:format|parse)[: ][^\n]{1,300}"  # Black, before the total
    r"|\(standard_in\) \d+: [^\n]{1,200}|Runtime error \([^\n]{1,80}\): [^\n]{1,200}"  # bc, which ends with 0
    # MSBuild, Nim, D
    rf"|{_PLACE}\(\d+(?:, ?\d+){{0,3}}\):? (?:fatal )?[Ee]rror(?: [A-Z]{{1,6}}\d{{1,6}})?: [^\n]{{1,300}}"
    r"|[A-Z]\w{1,20} : (?:fatal )?error [A-Z]{2,8}\d{2,6}: [^\n]{1,300}"  # MSBuild, of a project and not of a place
    rf"|e: (?:file:)?{_PLACE}:\d+:\d+[: ][^\n]{{1,300}}|e: file://[^\n]{{1,300}}"  # kotlinc
    # Bazel; what fails in a step of the build stands below.
    rf"|ERROR: {_PLACE}:\d+:\d+: (?![^\n]{{0,300}}\bfailed\b)[^\n]{{1,300}}"
    rf"|{_PLACE}\.proto:\d+:\d+: (?!warning)[^\n]{{1,300}}|\[error\] {_PLACE}\.(?:scala|java|kt):\d+[^\n]{{1,300}}"
    r"|ERROR in (?:\./)?\S[^\n]{0,300}(?:\n[^\n]{1,300})?|CMake Error[^\n]{0,200}(?:(?<=:)\n {2}[^\n]{1,300})?"
    r"|Failed to compile\.?(?:\n{1,2}[^\n]{1,300}(?:\n[^\n]{1,300})?)?$"  # Next.js and webpack: what and where is below
    r"|! (?:LaTeX Error|Undefined)[^\n]{1,200}(?:\nl\.\d{1,7} [^\n]{1,200})?"  # what is undefined ends that line
    r"|\u2718 \[ERROR\] [^\n]{1,300}|\[ERROR\] COMPILATION ERROR[^\n]{0,80}|Errors parsing \S{1,300}"
    rf"|{_PLACE}(?:\(\d+,\d+\):|:\d+:\d+ -) error TS\d+: [^\n]{{1,300}}|error: TS\d{{4,5}} \[ERROR\]: [^\n]{{1,300}}"
    rf"|[Ee]rror(?:\[[\w-]{{1,60}}\]| \(\d{{1,6}}\))?: [^\n]{{1,300}}(?=\n +--> )"
    # What `grep ^error` leaves of rustc ends so; a list of codes does not.
    r"|error\[E\d{4}\]: [^\n]{1,300}$(?=(?:\n[^\n]{0,300}){0,20}?\nerror: (?:aborting due to|could not compile) )"
    r"|error: could not compile [^\n]{1,200}"
    # Go's compiler, vet and golangci-lint name a column; lines of `grep -n` and of tests do not.
    rf"|(?:vet: )?{_PLACE}\.go:\d+:\d+: [^\n]{{1,300}}"
    r"|error: aborting due to [^\n]{1,100}(?:\n{1,2}For more information about this error, [^\n]{1,60})?"  # rustc
    r"|collect2: error: [^\n]{1,100}|[^\n]{0,200}undefined reference to [^\n]{1,100}"
    r"|(?:[\w./-]{0,80}[/-])?ld(?:\.\w{1,8})?: (?!warning)[^\n]{1,300}$(?<!:)"
    r"| {1,4}error \u2022 [^\n]{1,300}"  # Dart and Flutter
    # ESLint, below the file, of any script that runs it; the rule stands last.
    r"| {1,4}\d{1,7}:\d{1,5} {1,12}error {2,9}(?:Parsing error: [^\n]{1,300}|\S[^\n]{1,300}? {2,9}[\w@/-]{3,80}$)"
    r"|SystemCheckError: [^\n]{1,200}|CommandError: [^\n]{1,200})",
    _LINES,
)

# What linters and build tools say at the end. `[1-9]` because they also print zeros.
_TOTALS: Final = re.compile(
    r"^(?:Found [1-9]\d{0,8} errors?(?: in \d+ files?)?(?: \(checked \d+ source files?\))?\.?$"  # mypy, ruff, biome
    r"|[1-9]\d{0,8} errors?, \d+ warnings?, \d+ \w+|[1-9]\d{0,8} errors?(?: generated\.?)?$"  # pyright; javac, clang
    r"|\W{0,3}[1-9]\d{0,8} problems? \([1-9]\d{0,8} errors?[^)\n]{0,60}\)?"  # eslint
    r"|[1-9]\d{0,8} issues?:$"  # golangci-lint
    r"|[1-9]\d{0,8} files? (?:would be|failed to|would fail to) reformat(?:ted)?"
    r"|\[warn\] Code style issues found[^\n]{0,100}"
    r"|(?:\[[\w:.-]{1,60}\] )?ERROR task failed|Error: no test specified$"  # deno; a new package of npm
    r"|npm (?:ERR!|error) [^\n]{1,200}|.{0,4}ELIFECYCLE.{1,200}"
    r"|error Command failed[^\n]{0,200}|error: script \"[^\"\n]{1,80}\" (?:exited|was terminated)[^\n]{0,80}"
    r"|(?:(?:g?make|ninja)(?:\[\d+\])?|[\w./-]{1,80}:\d+): \*\*\* [^\n]{1,200}$(?<! \(ignored\))"
    r"|ninja: build stopped[^\n]{0,100}|(?:\*\* )?(?:TEST|BUILD|Build) (?:FAILURE|FAILED)\b[^\n]{0,80}|Result: FAIL$"
    r"|\d{1,9} files? inspected, [1-9]\d{0,8} offenses?[^\n]{0,100}"
    r"|No test(?:s| files) found, exiting with code \d+|(?:no tests ran|\d+ deselected) in [^\n]{1,40}$(?!\nERROR: )"
    r"|={2}\d{1,9}={2} ERROR SUMMARY: [1-9]\d{0,8} errors[^\n]{0,80}|Diff in /[^\n]{1,300}:$"  # Valgrind; rustfmt
    r"|-- Configuring incomplete, errors occurred!?|[^\n]{3,80}\.{3}Failed$(?=\n- hook id)"
    r"|\S{1,100} {1,60}: ok=\d[^\n]{0,80}(?:unreachable|failed)=[1-9][^\n]{0,80}"
    r"|Executed \d{1,9} out of \d{1,9} tests?: (?:[^\n]{0,80}(?:, | and ))?[1-9]\d{0,8} fails?\b[^\n]{0,60}"  # Bazel
    r"|(?:INFO: )?Build completed, [1-9]\d{0,8} tests? FAILED\b[^\n]{0,60}"  # Bazel
    r"|webpack \S{1,40} compiled with [1-9]\d{0,5} errors?[^\n]{0,60}"
    r"|\[ERROR\] (?:Failed to execute goal|The goal you specified) [^\n]{1,600}"
    r"|ERROR: usage: [^\n]{1,300}\n(?P<usage>[^\n]{1,80}: error: [^\n]{1,300})"  # pytest
    r"|(?:rails|rake) aborted!\n(?P<rake>[^\n]{1,300})"
    r"|error during build:?$(?:\n(?P<vite>[^\n]{1,300}))?"
    # Gradle, ESLint, RSpec and SQLFluff first say that something went wrong, then what.
    r"|(?:FAILURE: Build failed[^\n]{0,80}\n\n(?:\* Where:\n[^\n]{1,300}\n\n)?\* What went wrong:"
    r"|Oops! Something went wrong! :\(\n\nESLint: [^\n]{1,20}\n|Failed examples:\n"
    r"|== \[[^\n]{1,200}\] FAIL)\n(?P<said>[^\n]{1,300})|FAILURE: Build failed[^\n]{0,80}"
    r"|error [^\n]{1,300}$(?=\ninfo Visit )"  # Yarn
    # Jest and RSpec, of a file that does not load
    r"|(?<=\u25cf Test suite failed to run\n\n) {2,6}\S[^\n]{1,300}|An error occurred while loading [^\n]{1,300}"
    r"| {0,4}\S{1,60}: FAIL code \d+[^\n]{0,100}|nox > Session \S{1,60} failed\b[^\n]{0,80}"
    r"|\w{0,20} ?[Tt]ask failed[^\n]{0,80}$|pre-commit[^\n]{0,40} failed$|exit status [1-9]\d{0,3}$)",
    _LINES,
)

# Tests may all pass, and too little of the code run.
_COVERAGE: Final = re.compile(
    r"^[^\n]{0,80}\b[Cc]overage\b[^\n]{0,100}\b(?:does not meet|not (?:reached|met)"
    r"|(?:less than|below) (?:the )?(?:\w{1,20} ){0,3}(?:fail-under|minimum|threshold))[^\n]{0,80}",
    _LINES,
)

_TOTAL_WORDS: Final = (
    *("Found ", " error", "rror:", "error ", "ERR", " problem", " issue", "fail", "Fail", "FAIL", " offense"),
    *("reformat", "Code style", "ELIFECYCLE", "*** ", "ninja: ", "ok=", "No test", "no tests ran", "Diff in ", "Oops!"),
    *("nox > ", "exit status", "aborted!", "deselected"),
)

_COMMANDS: Final = re.compile(
    r"^(?:(?:[\w./-]{0,60}/)?(?:ba|z|da|k|c)?sh: [^\n]{0,200}(?:not found|No such file or directory"
    r"|[Pp]ermission denied|syntax error[^\n]{0,100}|is a directory|bad substitution|unexpected end of file"
    r"|Operation not permitted)[^\n]{0,80}|[\w./-]{0,60}: line \d+: [^\n]{1,200}|(?:eval|bash|zsh):\d+: [^\n]{1,200}"
    r"|[\w.-]{1,40}: command not found: \S+|\S{1,60}: command not found$"
    r"|[\w./-]{0,60}python[\d.]*: (?:can't open file|No module named|Error while)[^\n]{1,200}"
    r"|fatal: (?!\[)[^\n]{1,300}|error: (?:pathspec|failed to push|patch failed|could not|cannot|unable"
    r"|your local changes|src refspec|branch|remote|the following|unknown|unrecognized|no such|invalid|commit is"
    r"|Merging|Your)\b[^\n]{1,300}|CONFLICT \([^\n]{1,200}| ! \[(?:remote )?rejected\][^\n]{1,200}"
    r"|error: \S{1,200}: patch does not apply|\d+ out of \d+ hunks? (?:FAILED|ignored)[^\n]{0,200}"
    r"|merge: \S{1,200} - not something we can merge|\w{2,10}sum: WARNING: \d{1,9} [^\n]{1,80} did NOT match"
    r"|rsync: (?:\[\w{1,20}\] )?[^\n]{1,300} failed: [^\n]{1,200}|Hunk #\d+ FAILED[^\n]{0,80}"
    r"|patch: \*{4} [^\n]{1,200}|curl: \(\d+\) [^\n]{1,200}"
    r"|[^\n]{1,300}--:--:-- {1,6}\d{1,6}k?(?P<said>curl: \(\d+\) [^\n]{1,200})"  # behind its meter
    r"|[0-9A-F]{8,20}:error:[0-9A-F]{8}:system library:BIO_[^\n]{1,300}"  # OpenSSL, of a connection
    r"|wget: [^\n]{0,60}(?:unable|failed)[^\n]{1,200}|\d{4}-\d\d-\d\d [\d:]{8} ERROR [45]\d\d: [^\n]{1,100}"  # wget
    r"|ssh: [^\n]{1,200}|[^\n]{0,100}Permission denied \((?:publickey|password|keyboard|gssapi)[^\n]{0,80}"
    r"|[^\n]{0,80}: The term '[^'\n]{1,80}' is not recognized[^\n]{0,200}"  # PowerShell and cmd.exe
    r"|'[^'\n]{1,80}' is not recognized as an internal or external command[^\n]{0,100}"
    r"|E: [A-Z][^\n]{1,200}"
    r"|Could not open input file: [^\n]{1,200}|git: '[^'\n]{1,80}' is not a git command[^\n]{0,60}"  # PHP; git
    r"|(?:collecting \.\.\. )?ERROR: (?:Could not|No matching|Failed|Cannot|Command errored|Invalid requirement"
    r"|Exception|Directory|file or directory|not found:)[^\n]{1,300}"
    r"|(?:\W{0,3}|Error: )ERR_PNPM_\w{1,60}\b[^\n]{0,300}|rsync error: [^\n]{1,200}"
    r"|Job for \S{1,100} failed because [^\n]{1,200}|(?:[^\n]{1,300}, )?version solving failed\.?$"  # systemd, Poetry
    r"|Your (?:requirements could not be resolved to|lock file does not contain) an? \w+ set of packages"  # Composer
    r"|(?:docker: )?Error response from daemon: [^\n]{1,700}"
    r"|(?:docker: )?Cannot connect to the Docker daemon[^\n]{0,100}"
    rf"|[\w./-]{{1,60}}: (?:fatal )?(?:{ERROR_WORDS}) ?[:\uff1a] [^\n]{{1,200}}"
    r"|[\w./-]{1,60}: (?:unrecognized|invalid|illegal|unknown|bad) (?:option|service)[^\n]{0,100}"
    r"|(?:rm|cp|mv|mkdir|touch|tee|chmod|ln|tar(?: \(child\))?|gzip|bzip2|xz|unzip|sed|awk|dd|install): {1,2}(?:can"
    r"(?:not|'t| not)|failed|[Ee]rror|[Ee]xiting with failure|-e expression|[^\n]{1,200}: (?:No such file or directory"
    r"|Permission denied"
    r"|Operation not permitted|Is a directory|File exists|cannot open"
    r"|not in gzip format))[^\n]{0,200}$(?!\n[^\n]{0,200}\(ignored\)$)"  # make's
    r"|Your proposed edit has introduced new syntax error[^\n]{0,80})",
    _LINES,
)

# What a reading program prints instead of a file's text.
_UNREADABLE: Final = re.compile(
    r"(?:[\w./-]{1,60}: (?:cannot (?:access|open|stat|read)\b[^\n]{1,300}"
    r"|(?:can't|couldn't) (?:open|read|find)[^\n]{1,300}"
    r"|[^\n]{1,300}: (?:No such file or directory|Permission denied|Is a directory|Operation not permitted))"
    r"|(?:[\w./-]{0,60}/)?(?:ba|z|da|k)?sh:(?:\d{1,5}:)? [^\n]{1,300}"
    r"|\S{1,60}: (?:command not found|Undefined variable\.)"
    rf"|(?:{ERROR_WORDS}) ?[:\uff1a][^\n]{{1,300}}|[Uu]sage: [^\n]{{1,300}}"
    r"|Error (?:response from daemon|from server \(\w{1,40}\)): [^\n]{1,300}"
    r"|To get started with GitHub CLI, [^\n]{1,100}|Alternatively, populate the GH_TOKEN [^\n]{1,100}"
    r"|[\w./-]{1,60}: (?:unrecognized|invalid|illegal|unknown)[^\n]{1,200}|(?:gh|HTTP): [^\n]{1,200} \(HTTP \d{3}\)"
    r"|[\w.-]{1,40}: error[^\n]{1,300}|(?:curl|wget|ssh)(?:: \(\d+\))?: [^\n]{1,200}"
    # kubectl, and ssh of the way to a host
    r"|command terminated with (?:non-zero )?exit code[^\n]{0,40}|[^\n]{0,100}Permission denied \([a-z,-]{1,80}\)\.?"
    r"|Host key verification failed\.?|kex_exchange_identification: [^\n]{1,200}"
    r"|Connection (?:closed|reset) by [^\n]{1,100}"
    # Perl's filters, of their own program and of the files that they read
    r"|[^\n]{1,300} at -e line \d{1,5}[.,][^\n]{0,200}|Execution of -e aborted[^\n]{1,80}"
    r"|Can't (?:open|locate) [^\n]{1,600}|BEGIN failed--[^\n]{1,80}|\[fd error\]: [^\n]{1,300}"
    r"|\u203a {1,4}\S[^\n]{0,300}"  # Heroku and others on oclif
    # jq and ripgrep
    r"|(?:\w{1,20} )?parse error:(?: [^\n]{1,300})?|[^\s:]{1,300}: No such file or directory \(os error 2\)"
    r"|(?:[a-z ]{1,40} failed: )?GraphQL: [^\n]{1,200}|(?:no|failed to|could not|unable to) [^\n]{1,200})$"
)


def crash_line(text: str) -> str | None:
    """Return the line of an uncaught exception or of a killed program."""
    raised = raised_line(text)
    if raised is not None:
        return raised
    found = _found(_CRASHES, text) if any(map(text.__contains__, _CRASH_WORDS)) else None
    return _reason_above(text, found) if found is not None and _PASSES_ON.match(found) else found


# Perl and Elixir end with a line that only passes on what they said above.
_PASSES_ON: Final = re.compile(r"BEGIN failed--|[^\n]{1,300}\(errors have been logged\)$")
_LABELLED: Final = re.compile(r"^[ \t]{0,8}error: [^\n]{1,300}", _LINES)


def _reason_above(text: str, line: str) -> str:
    above = text[: text.find(line)].rstrip()
    labelled = _LABELLED.search(above)
    return (labelled.group() if labelled else above.rpartition("\n")[2][:800]).strip() or line


def build_line(text: str) -> str | None:
    """Return the first error of a compiler or linter, otherwise the total that a linter or build tool prints."""
    found = _found(_COMPILERS, text)
    return " ".join(map(str.strip, found.split("\n"))) if found else total_line(text)


# The finding of a linter; its total says only how many there are.
_FINDING: Final = re.compile(
    r"^(?: {0,4}(?:/|[A-Z]:)?[^\s:()]{1,300}:(?:\d+(?::\d+)?:? \S|\s?line \d+, col \d+, )[^\n]{0,300}"
    r"|In [^\s:()]{1,300} line \d+:(?:\n[^\n]{0,300}\n\s{0,200}\^-{1,200}\^? (?P<said>[^\n]{1,300}))?$"
    r"|[ \t]{1,4}\d+:\d+ {1,12}error\b[^\n]{1,300}|>> Issue: [^\n]{1,300}"
    r"|[A-Z]{1,6}\d{1,5} [^\n]{1,300}$(?=\n {1,4}--> ))",  # Ruff
    _LINES,
)
_WARNS: Final = re.compile(r"[^\n]{0,300}\b(?:warn(?:ing)?|note|info|hint)\b|[^\n]{1,300}: [WCRN]: ", re.IGNORECASE)
_COUNTS: Final = re.compile(r"\W{0,3}(?:Found )?\d")


def finding_line(text: str) -> str | None:
    """Return the first finding that a linter reports, before a warning if there is another."""
    found = [match["said"] or match.group() for match in _FINDING.finditer(text)]
    return next((line for line in found if not _WARNS.match(line)), *found[:1] or (None,)).strip() if found else None


def total_line(text: str) -> str | None:
    """Return the total that a linter or build tool prints at its end."""
    found = _found(_TOTALS, text) if any(map(text.__contains__, _TOTAL_WORDS)) else None
    return found or (_found(_COVERAGE, text) if "overage" in text else None)


_NPM_CODE: Final = re.compile(r"npm (?:ERR!|error) code ")
_NPM_SAID: Final = re.compile(r"^npm (?:ERR!|error) (?!(?:code|errno|syscall|path|dest)\b)[^\n]{1,200}", _LINES)


def said_of(text: str, line: str) -> str:
    """Return what a person would quote for a line that only counts what is wrong or has a code for it."""
    if _COUNTS.match(line):
        return finding_line(text[: text.find(line)]) or line
    if line.startswith("no tests ran"):
        return command_line(text) or line
    return (_found(_NPM_SAID, text) or line) if _NPM_CODE.match(line) else line


def command_line(text: str) -> str | None:
    """Return the line in which a shell or a common command says that it could not do its work."""
    return _found(_COMMANDS, text)


_USAGE: Final = re.compile(r"^[Uu]sage: .*(?:\n[ \t]+\S.*)+(?=\n)", _LINES)
_LETTERS: Final = re.compile(r"\w")  # marks alone point at a place in the line above


_LABEL: Final = re.compile(rf"(?:{ERROR_WORDS}) ?[:\uff1a]")


def is_labelled(line: str) -> bool:
    """Check for a line such as "error: ...", which a log or a file may begin with as well as a program."""
    return _LABEL.match(line) is not None


def unreadable_line(text: str) -> str | None:
    """Return the first line if every line of a reading command's output says that it could not read."""
    lines = [line for line in _USAGE.sub("", text).splitlines() if _LETTERS.search(line)]
    if not lines or len(lines) > 8 or not all(_UNREADABLE.match(line.strip()[:700]) for line in lines):
        return None
    return lines[0].strip()


# The verdict of a script of one's own. Single lines such as "Error: ..." or a cross may be what an experiment was to
# show: of 70 such results that were read, most did.
_VERDICTS: Final = re.compile(
    r"^\W{0,6}(?:some|[1-9]\d{0,5}(?: (?:of|out of|/) \d{1,6})?|not all) (?:tests?|checks?) (?:have |has )?"
    r"(?:failed|did not pass)\b[^\n]{0,80}",
    _LINES | re.IGNORECASE,
)


def verdict_line(text: str) -> str | None:
    """Return the line in which a script says of its tests as a whole that some failed."""
    return _found(_VERDICTS, text)


_START_CHARS: Final = 500
# What is left of a traceback behind `| tail -1`. Other exceptions may be what a script is to show.
_NOT_STARTED: Final = re.compile(
    r"^(?:ModuleNotFoundError: No module named |ImportError: (?:cannot import|No module|attempted) "
    r"|SyntaxError: |IndentationError: )[^\n]{1,300}\s*\Z"
    r"|^[A-Z][^\n]{1,100}: line \d+ column \d+ \(char \d+\)\s*\Z",  # `python -m json.tool`
    _LINES,
)


def start_line(text: str) -> str | None:
    """Return the last line if it says that a script of Python could not even begin."""
    return _found(_NOT_STARTED, text[-_START_CHARS:])


def failure_line(text: str) -> str:
    """Return the line that names a failure, for people and for comparison with other failures; "" without one."""
    return crash_line(text) or build_line(text) or command_line(text) or verdict_line(text) or ""


def failure_in(output: str, *, probes: bool) -> str | None:
    """Return the line by which the output of a program that did work reports a failure.

    The counts of a test run outweigh other words: tests that pass may print any traceback. A command that `probes`,
    such as `git rev-parse x || echo none`, expects that one of its parts may fail.
    """
    counts = count_tests(output)
    if counts is not None and counts.bad:
        return named_failure(output) or str(counts)
    if counts is not None and counts.passed:
        line = total_line(output)
    else:
        line = crash_line(output) or build_line(output) or verdict_line(output)
        line = line or (None if probes else command_line(output))
    return line and said_of(output, line)


def named_failure(output: str) -> str:
    """Return what to call a failure: failed tests with their number, otherwise the line that names it."""
    counts = count_tests(output)
    line = failure_line(output)
    if counts is None or not counts.bad:
        return said_of(output, line)
    line = line or reason_of_failure(output) or ""
    return f"{counts}: {line}" if line else str(counts)


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[match.lastgroup or 0].strip()
