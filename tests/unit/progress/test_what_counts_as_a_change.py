"""Changes between calls: some may alter what other calls show, others change nothing."""

from __future__ import annotations

import pytest

from tests.support.dialects import MadeCall, claude_code, nudges_in
from tests.support.stretches import claude_edit
from tests.unit.progress.test_detector_conditions import Calls, between

SHOWN = "`python repro.py` has shown the same"
SAME_CALL = "You have made the same call 3 times"


def other_edit(n: int) -> MadeCall:
    return claude_edit(n, f"/r/other{n}.py")


def repro() -> MadeCall:
    return claude_code("python repro.py", "status 302\nerror: the total is wrong")


def wrote(n: int, path: str = "/r/app.py", text: str = "x = ") -> MadeCall:
    return "Write", {"file_path": path, "content": f"{text}{n}"}, f"File created successfully at: {path}"


def read(path: str = "/r/app.py") -> MadeCall:
    return "Read", {"file_path": path}, f"text of {path}"


def refused(n: int) -> MadeCall:
    tool, params, _ = claude_edit(n)
    return tool, params, f"<tool_use_error>Error: {(n + 3) * 'q'} of it is bad</tool_use_error>"


def breaking_script(n: int) -> MadeCall:
    code = f"open('app.py', 'w').write('{n * 'a'}')\nraise SystemExit('stop')"
    return claude_code(f"python <<'EOF'\n{code}\nEOF", f"stopped at {n * 'a'}", 1)


def refused_request(n: int) -> MadeCall:
    said = f"curl: ({n + 5}) {n * 'q'} Failed {n * 'r'}"
    return claude_code(f"curl -X POST http://localhost/carts/{n * 'a'}", said, n + 5)


def fixed_by_script(n: int) -> Calls:
    return [claude_code(f"python fix.py -{n * 'a'}", f"done {n * 'a'}"), repro()]


def at_revision(n: int) -> Calls:
    test = claude_code("pytest -q", "FAILED test_a.py::test_x - KeyError: 'total'\n1 failed, 3 passed in 0.2s", 1)
    return [claude_code(f"git checkout HEAD~{n + 1}", f"HEAD is now at {n}abc0{n} x"), test]


def failing_test() -> MadeCall:
    return claude_code("pytest -q", "FAILED test_a.py::test_x - KeyError: 'total'\n1 failed, 3 passed in 0.2s", 1)


def lacking(folder: str) -> MadeCall:
    said = f"FileNotFoundError: [Errno 2] No such file or directory: '{folder}/out.txt'"
    return claude_code("python build.py", f'Traceback (most recent call last):\n  File "build.py", line 9\n{said}', 1)


def made_folders(n: int) -> Calls:
    return [claude_code(f"mkdir -p /tmp/{n * 'a'}{k * 'b'}") for k in range(1, 6)]


def replacing() -> MadeCall:
    code = "text = open('app.py').read().replace('a = 1', 'a = 2')\nopen('app.py', 'w').write(text)"
    return claude_code(f"python - <<'EOF'\n{code}\nEOF")


def waiting(said: str = "Waited.") -> MadeCall:
    return "browser_wait_for", {"time": 5}, said


REPORTED: dict[str, tuple[Calls, int, str]] = {
    "an install changes what it installs itself": (
        between(lambda _: claude_code("pip install yaml", "Successfully installed"), 3, lambda n: read(f"/r/{n}")),
        6,
        SAME_CALL,
    ),
    "a file is read again while others change": (between(lambda _: read(), 3, other_edit), 6, SAME_CALL),
    "a run depends on more than the file that its line shows": (
        between(lambda _: claude_code("cat app.py; ./check", "x = 1\nall is good"), 4, other_edit),
        8,
        "You have read the same lines of app.py 4 times",
    ),
    "a file that was read is written as a whole": (
        [repro(), read(), wrote(1), repro(), wrote(2), repro()],
        6,
        SHOWN,
    ),
    "a file that was written is written again": (
        [each for n in range(4) for each in (wrote(n), repro())],
        6,
        SHOWN,
    ),
    "a script that was written earlier changes a file when it runs": (
        [
            wrote(0, "/r/fix.py", "open('app.py', 'w').write(text)"),
            repro(),
            *[each for n in range(3) for each in fixed_by_script(n)],
        ],
        6,
        SHOWN,
    ),
    "a script that fails may have changed a file before": (
        between(lambda _: repro(), 3, breaking_script),
        6,
        SHOWN,
    ),
    "a refused edit changes nothing": (
        [repro(), *[each for n in range(3) for each in (refused(n), repro())]],
        5,
        SAME_CALL,
    ),
    "a request that failed changes nothing": (
        between(lambda _: claude_code("./orders", "3 orders are open"), 3, refused_request),
        6,
        SAME_CALL,
    ),
    "a request may fix what a script shows": (
        between(lambda _: repro(), 3, lambda n: claude_code(f"psql -c 'update carts set total = {n}'", "UPDATE 1")),
        6,
        SHOWN,
    ),
    "a wait that says something learns nothing from itself": (
        [waiting("Waited for 5 seconds.\nthe page shows rows")] * 6,
        6,
        "You have waited 6 times",
    ),
    "what shows only known lines is no news for a wait": (
        between(lambda n: claude_code(f"pytest -q {n * 'a'}", "collected nothing at all"), 7, lambda _: waiting()),
        13,
        "You have waited 6 times",
    ),
    "what is staged is no text of a file": (
        between(lambda _: read(), 3, lambda n: claude_code(f"git add {n * 'a'}.py")),
        6,
        SAME_CALL,
    ),
    "a folder that is made changes no script": (
        between(lambda _: repro(), 3, lambda n: claude_code(f"mkdir -p /r/{n * 'a'} && cd /r/{n * 'a'}")),
        6,
        SAME_CALL,
    ),
    "a commit whose hook fails may have changed a file": (
        between(lambda _: repro(), 3, lambda n: claude_code(f"git add . && git commit -m {n}", f"{n * 'q'} broke", 1)),
        6,
        SHOWN,
    ),
    "folders that are made make an attempt no older": (
        [each for n in range(3) for each in (claude_edit(n, "/r/app.py"), failing_test(), *made_folders(n))],
        16,
        "The same",
    ),
    "what only leaves the index is no text of a file": (
        between(lambda _: read(), 3, lambda n: claude_code(f"git rm --cached {n * 'a'}.py")),
        6,
        SAME_CALL,
    ),
    "what is taken back in the index is no text of a file": (
        between(lambda _: read(), 3, lambda n: claude_code(f"git restore --staged {n * 'a'}.py")),
        6,
        SAME_CALL,
    ),
    "a folder that a script lacks is not there for another one's": (
        between(lambda _: lacking("dist"), 3, lambda n: claude_code(f"mkdir -p {n * 'a'}")),
        6,
        "The same error has come back 3 times",
    ),
    "a script that edits a file checks nothing": (
        [
            replacing(),
            claude_code("pytest -q", "FAILED t.py::t - KeyError: 'total of'\n1 failed", 1),
            claude_code("git checkout app.py", "Updated 1 path from the index"),
            replacing(),
        ],
        4,
        "A change to app.py, made at call 1, has been taken back and made again",
    ),
}


LET_PASS: dict[str, Calls] = {
    "what is staged shows in what git says": between(
        lambda _: claude_code("git status --short", "M app.py"), 3, lambda n: claude_code(f"git add {n * 'a'}.py")
    ),
    "a program that may be run now is another one": between(
        lambda _: claude_code("./orders", "3 orders are open"), 3, lambda n: claude_code(f"chmod +x {n * 'a'}.sh")
    ),
    "a test that passes is run after each commit": between(
        lambda _: claude_code("pytest -q", "12 passed in 0.4s"), 4, lambda n: claude_code(f"git commit -qm {n * 'a'}")
    ),
    "a script that finds nothing wrong may ask git": between(
        lambda _: claude_code("python staged.py", "no secrets are staged"),
        4,
        lambda n: claude_code(f"git add {n * 'a'}.py"),
    ),
    "a mode may open a page": between(
        lambda _: claude_code("curl -so /dev/null -w '%{http_code}' localhost", "403"),
        3,
        lambda n: claude_code(f"chmod o+r {n * 'a'}.html"),
    ),
    "a mode may be what a script lacks": between(
        lambda _: claude_code("python deploy.py", "PermissionError: [Errno 13] Permission denied: '/r/key.pem'", 1),
        2,
        lambda n: claude_code(f"chmod 600 /r/{n * 'a'}.pem"),
    ),
    "a script lacks one folder after another": [
        each
        for folder in ("dist", "logs", "maps", "cache", "reports", "assets")
        for each in (lacking(folder), claude_code(f"mkdir -p {folder}"))
    ],
    "another revision fails by itself": [each for n in range(4) for each in at_revision(n)],
}


@pytest.mark.parametrize("name", REPORTED)
def test_what_changed_in_between_decides_what_is_reported(name: str) -> None:
    calls, expected, said = REPORTED[name]
    assert [(call, each.summary[: len(said)]) for call, each in nudges_in(calls)] == [(expected, said)]


@pytest.mark.parametrize("name", LET_PASS)
def test_what_changed_in_between_lets_pass(name: str) -> None:
    assert nudges_in(LET_PASS[name]) == []
