"""The one next step fits the failure, whichever program's tool met it."""

from __future__ import annotations

import pytest

from tellback.guidance.next_steps import (
    GIT_STEP,
    GUESSED_STEP,
    LACKING_STEP,
    LIMITED_STEP,
    MISCALLED_STEP,
    REFUSED_EDIT_STEP,
    REFUSED_STEP,
    ROOM_STEP,
    SERVICE_STEP,
    TAKEN_STEP,
    UNREADABLE_STEP,
)
from tellback.guidance.stuck_feedback import TEXTS
from tests.support.dialects import MadeCall, Shell, claude_code, codex_json, mini_swe_agent, nudges_in, openhands
from tests.support.stretches import claude_edit

CODE_STEP = TEXTS["same_failure"][1]
OUT_OF_MEMORY = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
UNRESOLVED = "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree"
RAISED = "Traceback (most recent call last):\n"
FAILED_OPEN = "    open('x.csv')\nFileNotFoundError: [Errno 2] No such file or directory: 'x.csv'"

# The command, what varies in it, what it says, and the step.
FAILURES = [
    ("cat nope.txt", "   ", "cat: nope.txt: No such file or directory", GUESSED_STEP),
    ("make check", "   ", "make: *** No rule to make target 'check'.  Stop.", GUESSED_STEP),
    ("npm run lint", "   ", 'npm error Missing script: "lint"', GUESSED_STEP),
    ("git checkout feature/x", "   ", "error: pathspec 'feature/x' did not match any file(s)", GUESSED_STEP),
    ("git", ("status", "diff", "log"), "fatal: not a git repository (or any parent up to /): .git", GUESSED_STEP),
    ("kubectl get pod api", ("", "-oyaml", "-owide"), 'Error from server (NotFound): "api" not found', GUESSED_STEP),
    ("kubectl get --foo", ("po", "svc", "ing"), "error: unknown flag: --foo", GUESSED_STEP),
    ("pip install foo", ("", "-U", "-v"), "ERROR: No matching distribution found for foo", GUESSED_STEP),
    ("node a.js", "abc", "Error: Cannot find module 'express'\nRequire stack:\n- /r/a.js", LACKING_STEP),
    ("curl localhost:9/", "abc", "curl: (7) Failed to connect to localhost: Couldn't connect to server", LACKING_STEP),
    ("curl https://in.example/", "abc", "curl: (60) SSL certificate problem: self-signed certificate", LACKING_STEP),
    ("node a.js", "abc", "Error: Missing environment variable DATABASE_URL\n    at env (/r/env.js:3:9)", LACKING_STEP),
    ("git push", ("", "-q", "-v"), "fatal: Authentication failed for 'https://git.example/a.git/'", "`https://git.example"),
    ("npm publish", ("", "-a", "-b"), "npm error code ENEEDAUTH\nnpm error need auth", "the address and the account"),
    ("aws s3 ls", ("", "s3://a", "s3://b"), "Unable to locate credentials.", "`s3://b`"),
    ("./run.sh", "   ", "bash: ./run.sh: Permission denied", "`./run.sh`"),
    ("sudo apt-get install", "abc", "sudo: a terminal is required to read the password", "the address and the account"),
    ("gh api repos/", "abc", "gh: API rate limit exceeded for user ID 1. (HTTP 403)", LIMITED_STEP),
    ("curl -sf https://api.x/", "abc", "curl: (22) The requested URL returned error: 429", LIMITED_STEP),
    ("cp big /data/", "abc", "cp: error writing '/data/big': No space left on device", ROOM_STEP),
    ("python train.py", "abc", OUT_OF_MEMORY, ROOM_STEP),
    ("git merge", ("main", "-v main", "-q main"), "CONFLICT (content): Merge conflict in a.py", GIT_STEP),
    ("git add", "abc", "fatal: Unable to create '/r/.git/index.lock': File exists.", TAKEN_STEP),
    ("terraform plan", ("", "-a", "-b"), "│ Error: Error acquiring the state lock", TAKEN_STEP),
    ("apt-get install", "abc", "E: Could not get lock /var/lib/dpkg/lock. It is held by process 1412", TAKEN_STEP),
    ("kubectl apply -f a.yaml", "   ", "error: error parsing a.yaml: error converting YAML to JSON", UNREADABLE_STEP),
    ("npm install", ("", "-D", "react"), UNRESOLVED, SERVICE_STEP),
    ("cargo build", "   ", "error: could not find `Cargo.toml` in `/r` or any parent directory", GUESSED_STEP),
    ("npx eslint", "abc", "ESLint couldn't find an eslint.config.(js|mjs|cjs) file.", GUESSED_STEP),
    ("go test ./", "abc", "go: cannot find main module, but found .git/config in /r", GUESSED_STEP),
    ("git show", "abc", "fatal: ambiguous argument 'v1': unknown revision or path", GUESSED_STEP),
    ("npm ci", "abc", "npm error `npm ci` can only install what package.json and its lock agree on.", SERVICE_STEP),
    ("npx cowsay", "abc", "npm error npx canceled due to missing packages and no YES option: [cowsay]", LACKING_STEP),
    ("./gradlew test", "abc", "ERROR: JAVA_HOME is not set and no 'java' command could be found.", LACKING_STEP),
    ("psql -c", "abc", 'psql: connection to server at "/s" failed: No such file or directory', LACKING_STEP),
    ("bundle exec rspec", "abc", "LoadError: cannot load such file -- pg", LACKING_STEP),
    ("make proto", "abc", "make: protoc: No such file or directory\nmake: *** [proto] Error 127", LACKING_STEP),
    ("redis-cli get", "abc", "(error) NOAUTH Authentication required.", "the address and the account"),
    ("git pull", "abc", "fatal: Could not read from remote repository.", "the address and the account"),
    ("git rebase", "abc", "error: cannot rebase: You have unstaged changes.", GIT_STEP),
    ("sed -i", "abc", "sed: -e expression #1, char 20: unterminated `s' command", UNREADABLE_STEP),
    ("pytest -q", "abc", "E   AssertionError: assert 403 Forbidden == 200", CODE_STEP),
    ("npm run check", "   ", 'Error: expected 200 "OK", got 403 "Forbidden"', CODE_STEP),
    ("python b.py", "abc", f"{RAISED}AttributeError: 'RateLimiter' object has no attribute 'ask'", CODE_STEP),
    ("python c.py", "abc", f"{RAISED}ImportError: cannot import name 'ThrottledError' from 'app'", CODE_STEP),
    ("python a.py", "abc", f"{RAISED}{FAILED_OPEN}", CODE_STEP),
    ("ls /srv/x", "abc", "ls: Öffnen von Verzeichnis '/srv/x' nicht möglich: Keine Berechtigung", "`/srv/x`"),
    ("gci", "abc", r"gci : Der Zugriff auf den Pfad 'C:\Daten\Export' wurde verweigert.", r"`C:\Daten\Export`"),
    ("gci", "abc", r"gci : L'accès au chemin d'accès 'C:\Donnees' est refusé.", r"`C:\Donnees`"),
    ("cat /srv/y", "abc", "cat: /srv/y: Permission non accordée", "`/srv/y`"),
    ("gci", "abc", r"gci : Acceso denegado a la ruta de acceso 'D:\datos'.", r"`D:\datos`"),
    ("cat /srv/z", "abc", "cat: /srv/z: Permiso denegado", "`/srv/z`"),
    ("gci", "abc", r"gci : O acesso ao caminho 'C:\dados' foi negado.", r"`C:\dados`"),
    ("gci", "abc", r"gci : Accesso al percorso 'C:\dati' negato.", r"`C:\dati`"),
]  # fmt: skip


@pytest.mark.parametrize("shell", [claude_code, codex_json, mini_swe_agent, openhands])
@pytest.mark.parametrize(("line", "varied", "said", "step"), FAILURES, ids=[each[2][:50] for each in FAILURES])
def test_the_step_after_a_failed_command_fits_its_error(
    line: str, varied: str | tuple[str, ...], said: str, step: str, shell: Shell
) -> None:
    """G-287, G-294, G-412: nobody is sent to read code for what is not there, or to ask for a right that code tests."""
    expected = step if step.endswith(".") else REFUSED_STEP.partition("{")[0] + step
    (given,) = steps_after([shell(f"{line} {each}".strip(), said, 1) for each in varied])
    assert given.startswith(expected)


@pytest.mark.parametrize(
    ("tool", "said", "step"),
    [
        ("Edit", "File has been modified since read, either by the user or by a linter.", REFUSED_EDIT_STEP),
        ("Read", "File content (31000 tokens) exceeds maximum allowed tokens (25000).", ROOM_STEP),
        ("mcp__db__query", "canceling statement due to statement timeout", ROOM_STEP),
        ("mcp__db__query", "cannot execute DELETE in a read-only transaction", REFUSED_STEP.partition("{")[0]),
        ("mcp__gh__create_issue", "MCP error -32602: Invalid arguments for tool create_issue: title", MISCALLED_STEP),
        ("mcp__jira__create", "Error: {'priority': 'Priority is required.'}", SERVICE_STEP),
        ("mcp__linear__list", "MCP error -32000: Connection closed", LACKING_STEP),
        ("mcp__browser__browser_navigate", "Error: page.goto: net::ERR_CONNECTION_REFUSED", LACKING_STEP),
        ("mcp__browser__browser_navigate", "Error: Browser is already in use, use --isolated", TAKEN_STEP),
    ],
)
def test_the_step_after_a_failed_call_fits_its_error(tool: str, said: str, step: str) -> None:
    """G-287."""
    asked = {"Edit": ("old_string", "new_string"), "Read": ("file_path",)}.get(tool, ("q",))
    calls: list[MadeCall] = [
        (
            tool,
            {"file_path": "/r/a.py", **{name: f"{name} {n}" for name in asked}},
            f"<tool_use_error>{said}</tool_use_error>",
        )
        for n in range(3)
    ]
    (given,) = steps_after(calls)
    assert given.startswith(step)


def steps_after(calls: list[MadeCall]) -> list[str]:
    return [step for _, feedback in nudges_in(calls) for step in feedback.suggestions]


def test_a_file_that_is_not_there_is_so_for_every_program_that_is_given_its_name() -> None:
    """G-288."""
    calls = [
        claude_code("cat conf/app.yaml", "cat: conf/app.yaml: No such file or directory", 1),
        claude_code("ls -l ./conf", "app.yml"),
        claude_code("head -50 ./conf/app.yaml", "head: ./conf/app.yaml: No such file or directory", 1),
        claude_code("sed -n 1,20p conf/app.yaml", "sed: can't read conf/app.yaml: No such file or directory", 2),
    ]
    assert [(call, each.suggestions) for call, each in nudges_in(calls)] == [(4, (GUESSED_STEP,))]
    others = [claude_code(f"cat {name}.txt", f"cat: {name}.txt: No such file or directory", 1) for name in "abcd"]
    assert nudges_in(others[:3]) == []


def test_a_search_with_an_unknown_option_is_the_same_failure_for_any_word() -> None:
    """G-288."""
    said = "error: unexpected argument '--foo' found\n\nUsage: rg [OPTIONS] PATTERN [PATH ...]"
    calls = [claude_code(f"rg --foo {word}", said, 2) for word in ("cart", "order", "price")]
    assert steps_after(calls) == [GUESSED_STEP]


def test_another_spelling_of_a_word_that_nothing_was_found_for_is_another_search() -> None:
    """G-289: code may have any of them; six searches in vain are reported as such."""
    spellings = ("RateLimiter", "rate_limiter", "RateLimit", "rate_limit", "Rate_Limiters", "rate_limits")
    calls: list[MadeCall] = [("Grep", {"pattern": word, "path": "src"}, "No matches found") for word in spellings]
    ((call, feedback),) = nudges_in(calls)
    assert (call, feedback.suggestions) == (6, (TEXTS["empty_searches"][1],))
    assert [(each.label, each.value) for each in feedback.observations] == [("last search", "Grep rate_limits")]


def test_feedback_on_tests_that_get_worse_says_from_what_to_what() -> None:
    """G-380."""
    runs = [claude_code("pytest -q", f"{n} failed, {20 - n} passed in 1.00s", 1) for n in (3, 5, 9)]
    ((_, feedback),) = nudges_in([each for n, run in enumerate(runs) for each in (claude_edit(n), run)])
    assert feedback.summary == "`pytest -q` got worse 2 times in a row since call 4: 9 failed now, 5 before."


def test_a_patch_that_does_not_fit_is_quoted_by_its_error_and_not_by_the_file() -> None:
    """G-290."""
    said = "patching file src/a.py\nHunk #1 FAILED at 10.\n1 out of 1 hunk FAILED -- saving rejects to src/a.py.rej"
    ((_, feedback),) = nudges_in([claude_code(f"patch -p1 < fix{n}.patch", said, 1) for n in range(3)])
    assert feedback.observations[0].value == "Hunk #1 FAILED at 10."
    assert feedback.suggestions == (REFUSED_EDIT_STEP,)
