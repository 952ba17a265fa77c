"""Ways to be stuck on many surfaces, each beside a healthy twin that looks alike."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tellback.guidance.next_steps import (
    CHECKED_STEP,
    GIT_STEP,
    GUESSED_STEP,
    PAST_END_STEP,
    TAKEN_STEP,
    UNREADABLE_STEP,
)
from tellback.guidance.progress.programs import effect_of
from tellback.guidance.shell import simple_commands
from tests.support.dialects import (
    MadeCall,
    Shell,
    claude_code,
    codex_exec,
    codex_json,
    gemini_cli,
    mini_swe_agent,
    nudges_in,
    openhands,
    reported,
    spoken,
    step_of,
    woven,
)
from tests.support.stretches import claude_edit, str_replace

SHELLS: list[Shell] = [claude_code, codex_exec, codex_json, gemini_cli, mini_swe_agent, openhands]
NAMES = ("fastcoupon", "fast-coupon", "coupon-fast", "coupons", "pycoupon")


GUESSES: dict[str, tuple[str, str]] = {
    "pip": ("pip install {0}", "ERROR: No matching distribution found for {0}"),
    "go": ("go get example.com/{0}", "go: module example.com/{0}: reading https://proxy.example/{0}: 404 Not Found"),
    "apt": ("apt-get install -y {0}", "Reading package lists... Done\nE: Unable to locate package {0}"),
    "psql": ("psql -c 'select {0} from t'", 'ERROR:  column "{0}" does not exist\nLINE 1: select {0} from t'),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("guess", GUESSES)
def test_the_fourth_name_that_a_program_refuses_in_the_same_words_is_reported(shell: Shell, guess: str) -> None:
    """G-250."""
    asked, said = GUESSES[guess]
    calls = [shell(asked.format(name), said.format(name), 1) for name in NAMES]
    assert spoken(calls) == [4]
    if shell is claude_code and guess != "go":
        assert step_of(calls) == GUESSED_STEP


def test_names_of_a_list_that_are_asked_for_and_sizes_that_narrow_something_down_are_no_guesses() -> None:
    """G-250."""
    listed = [mini_swe_agent(f"pip show {name}", f"WARNING: Package(s) not found: {name}", 1) for name in NAMES]
    assert not spoken(listed)
    crash = "loading {0} blocks\n./run.sh: line 4: {1} Segmentation fault (core dumped) ./app"
    sizes = [mini_swe_agent(f"./run.sh {256 >> n}", crash.format(256 >> n, 4000 + n), 139) for n in range(6)]
    assert not spoken(woven([claude_edit(n) for n in range(6)], sizes))
    fourth = [
        claude_code(f"pip install {name}", f"ERROR: No matching distribution found for {name}", 1) for name in NAMES
    ]
    assert not spoken([*fourth[:3], claude_code("pip install attrs", "Successfully installed attrs-23.1"), *fourth[3:]])


DENIED = [
    ("cp build/new /etc/app.yml", "cp: cannot create regular file '/etc/app.yml': Permission denied"),
    ("sudo cp build/new /etc/app.yml", "sudo: a password is required"),
    ("chmod 666 /etc/app.yml", "chmod: changing permissions of '/etc/app.yml': Operation not permitted"),
]
SERVERS = ("python manage.py runserver 8080", "uvicorn app:app --port 8080", "nohup uvicorn app:app --port 8080")
TAKEN = "[Errno 98] error while attempting to bind on address ('127.0.0.1', 8080): address already in use"
RUNS = ("rspec", "bundle exec rspec", "rspec --format documentation")


@pytest.mark.parametrize("shell", SHELLS)
def test_surroundings_that_refuse_do_so_whichever_program_asks(shell: Shell) -> None:
    """G-251: a right on one path, a port that is taken, and a limit of time, though each text is another one."""
    assert spoken([shell(asked, said, 1) for asked, said in DENIED]) == [3]
    others = [
        (asked.replace("app", f"app{n}"), said.replace("app", f"app{n}")) for n, (asked, said) in enumerate(DENIED)
    ]
    assert not spoken([shell(asked, said, 1) for asked, said in others])
    started = [shell(line, f"INFO: process [{4000 + n}]\nERROR:    {TAKEN}", 1) for n, line in enumerate(SERVERS)]
    assert spoken(started) == [3]
    assert step_of(started) == TAKEN_STEP
    late = [shell(line, f"command timed out after {120_017 + n} milliseconds", 124) for n, line in enumerate(RUNS)]
    assert spoken(late) == [3]


def read_past(start: int) -> MadeCall:
    said = f"<system-reminder>Warning: the file is shorter than the provided offset ({start}).</system-reminder>"
    return "Read", {"file_path": "/r/app.py", "offset": start, "limit": 40}, said


@pytest.mark.parametrize("shell", [claude_code, codex_json, mini_swe_agent])
def test_reading_past_the_end_of_a_file_is_reported_in_whatever_range(shell: Shell) -> None:
    """G-252: with the step to count the lines; a page that shows something is none of them."""
    starts = (300, 280, 250, 320)
    assert step_of([shell(f"sed -n '{n},{n + 40}p' app.py", "", 0) for n in starts]) == PAST_END_STEP
    assert spoken(list(map(read_past, starts))) == [4]
    lines = ["\n".join(f"value_{n} = {n * k}" for n in range(k, k + 9)) for k in (1, 40, 80, 120)]
    assert not spoken([shell(f"sed -n '{n * 40},{n * 40 + 40}p' app.py", text, 0) for n, text in enumerate(lines)])


def clicked(n: int, alert: str) -> MadeCall:
    page = f"- Page Title: Checkout\n- textbox [ref=e{7 * n + 3}]\n- button [ref=e{7 * n + 5}]\n- alert: {alert}"
    return "mcp__playwright__browser_click", {"element": "Place order", "ref": "e12"}, f"### Page state\n{page}"


def typed(n: int) -> MadeCall:
    return "mcp__playwright__browser_type", {"element": "Name", "ref": "e5", "text": f"try {n}"}, f"fill('try {n}')"


def test_a_page_stays_the_same_though_its_parts_are_called_otherwise() -> None:
    """G-253: the browser's server numbers them in each snapshot."""
    same = [clicked(n, "Please choose a shipping method") for n in range(4)]
    ((call, feedback),) = nudges_in(woven([typed(n) for n in range(4)], same))
    assert (call, feedback.observations[0].value) == (6, "alert: Please choose a shipping method")
    others = ("Name is required", "Mail is required", "Phone is invalid", "Post code is invalid")
    assert not spoken(woven([typed(n) for n in range(4)], [clicked(n, alert) for n, alert in enumerate(others)]))


def page_of_items(first: int, took: int, cursor: str = "c1") -> MadeCall:
    items = [{"id": first + n, "name": f"item {first + n}"} for n in range(5)]
    answer = json.dumps({"items": items, "next": "c1", "took_ms": took})
    return "http_request", {"method": "GET", "url": f"https://api.example/items?cursor={cursor}"}, answer


def test_how_long_a_service_took_is_no_news() -> None:
    """G-253."""
    assert spoken([page_of_items(10, 17 * n + 9) for n in range(4)]) == [3]
    assert not spoken([page_of_items(10 * n, 17 * n + 9, f"c{n}") for n in range(8)])


def test_addresses_are_missing_for_browsers_and_for_services_that_answer_as_json() -> None:
    """As G-218 has it."""
    paths = ("orders", "order", "api/orders", "admin/orders")
    gone = json.dumps({"status": 404, "body": {"error": "Not Found"}})
    urls = [f"https://shop.example/{path}" for path in paths]
    assert spoken([("http_request", {"method": "GET", "url": url}, gone) for url in urls]) == [4]
    page = "- Page URL: {}\n- Page Title: 404 Not Found\n- heading"
    assert spoken([("browser_navigate", {"url": url}, page.format(url)) for url in urls]) == [4]


def red(name: str) -> MadeCall:
    said = f"1 failed, 13 passed in 0.31s\nFAILED tests/test_cart.py::test_{name} - assert 1 == 2"
    return mini_swe_agent("pytest -q", f"FAILED tests/test_cart.py::test_{name} - assert 1 == 2\n{said}", 1)


def test_what_began_before_a_report_is_not_reported_in_another_way() -> None:
    """G-254: attempts that are taken back and fail alike are one stretch, not two."""
    attempt = [
        [claude_edit(n) for n in range(4)],
        [red("total")] * 4,
        [claude_code(f"git checkout {flag}app.py", "Updated 1 path from the index") for flag in ("", "-- ", "", "-- ")],
    ]
    calls = woven(*attempt)
    assert spoken(calls) == [6]


def numbered(line: int, text: str) -> MadeCall:
    said = f"[File: /r/app.py (90 lines total)]\n{line}:{text}\n[File updated. Please review the changes]"
    return "bash", {"command": f"edit {line}:{line}\n{text}\nend_of_edit"}, said


def by_sed(line: int, text: str) -> MadeCall:
    return mini_swe_agent(f"sed -i '{line}s/.*/{text}/' app.py")


@pytest.mark.parametrize(("edit", "place"), [(numbered, "lines 41:41"), (by_sed, "app.py:41")])
def test_a_line_that_comes_back_after_another_text_stood_there_is_undone(
    edit: Callable[[int, str], MadeCall], place: str
) -> None:
    """G-255: though neither call says what it replaced; texts that are all new, and other lines, are no such edit."""
    runs = [red(name) for name in ("total", "tax", "empty")]
    back = woven([edit(41, "x = 1"), edit(41, "x = 2"), edit(41, "x = 1")], runs)
    assert reported(back) == [(5, f"A change to {place}, made at call 1, has been taken back and made again.")]
    assert not spoken(woven([edit(41, f"x = {n}") for n in (1, 2, 3)], runs))
    assert not spoken(woven([edit(41 + n, "x = 1") for n in range(3)], runs))


def test_what_is_deployed_again_is_judged_by_what_the_next_call_shows() -> None:
    """G-256."""
    apply = claude_code("kubectl apply -f api.yml", "deployment.apps/api configured")
    head = "NAME READY STATUS RESTARTS AGE\n"
    states = ("0/1 ContainerCreating 0 16s", "0/1 ErrImagePull 0 14s", "1/1 Running 0 46s", "1/1 Running 0 30s")
    shown = [claude_code("kubectl get pods", f"{head}api-6975b1c1e {state}") for state in states]
    assert not spoken(woven([apply] * 4, shown))
    crashes = [claude_code("kubectl get pods", f"{head}api-6975b1c1e 0/1 CrashLoopBackOff {n} 9s") for n in (3, 3, 3)]
    assert spoken(woven([apply] * 3, crashes)) == [6]


def googletest(name: str) -> str:
    return (
        f"1/1 Test #1: cart_test ...***Failed 0.2 sec\n[  FAILED  ] Cart.{name} (0 ms)\n[  PASSED  ] 13 tests.\n"
        f"[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Cart.{name}\n\n0% tests passed, 1 tests failed out of 1\n"
        "The following tests FAILED:\n\t  1 - cart_test (Failed)\nErrors while running CTest"
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_runs_of_googletest_differ_by_the_tests_that_failed(shell: Shell) -> None:
    """G-257."""
    edits = [str_replace(n) for n in range(5)]
    other = [shell("make test", googletest(name), 2) for name in ("Empty", "Tax", "Total", "Bulk", "Coupon")]
    assert not spoken(woven(edits, other))
    assert spoken(woven(edits, [shell("make test", googletest("Tax"), 2)] * 5))[0] in (5, 6)


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("pnpm vitest run src/cart.spec.ts", "test"),
        ("yarn jest src", "test"),
        ("bunx vitest run", "test"),
        ("pnpm exec vitest run", "test"),
        ("pnpm dev", "run"),
        ("npm run lint", "test"),
        ("yarn list", "read"),
    ],
)
def test_a_runner_is_known_behind_the_package_manager_that_starts_it(line: str, effect: str) -> None:
    """G-257."""
    (command,) = simple_commands(line)
    assert effect_of(command) == effect


STEPS = [
    (GIT_STEP, "git pull", "error: Your local changes to the following files would be overwritten by merge:\n\tapp.py"),
    (UNREADABLE_STEP, "make docs", "app.py: line 3: syntax error near unexpected token `('"),
    (CHECKED_STEP, "tsc --noEmit", "src/a.ts(51,9): error TS2322: Type 'string' is not assignable to type 'number'."),
]


@pytest.mark.parametrize(("step", "line", "said"), STEPS)
def test_the_step_fits_what_refused(step: str, line: str, said: str) -> None:
    """G-258."""
    assert step_of(woven([claude_edit(n) for n in range(3)], [claude_code(line, said, 1)] * 3)) == step


def test_the_step_of_a_place_claims_no_change() -> None:
    """G-410: who asked `jq` three times was told that what it had changed so far does not touch the error."""
    said = "jq: error (at orders.json:1): Cannot index array with string"
    asked = [claude_code(f"jq '.items.{name}' orders.json", said, 5) for name in ("id", "total", "state", "user")]
    step = step_of(asked)
    assert step == CHECKED_STEP
    assert "changed" not in step


def test_both_of_two_calls_in_turn_are_named() -> None:
    """G-258."""
    shown = [
        mini_swe_agent(f"systemctl status {name}", f"{name}.service\n Active: failed") for name in ("web", "db")
    ] * 2
    ((_, feedback),) = nudges_in(shown)
    assert [(each.label, each.value) for each in feedback.observations] == [
        ("call", "systemctl status db"),
        ("the other", "systemctl status web"),
    ]


def test_two_calls_that_differ_in_one_argument_have_names_of_their_own() -> None:
    """G-380: both were named by the id alone, which they share."""
    moved: list[MadeCall] = [
        ("update_event", {"id": "ev_92", "start": start}, f'{{"id": "ev_92", "start": "{start}"}}')
        for start in ("14:00", "10:00") * 2
    ]
    ((_, feedback),) = nudges_in(moved)
    assert [each.value for each in feedback.observations] == ["update_event ev_92 10:00", "update_event ev_92 14:00"]


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("dpkg -s libalpha", "read"),
        ("dpkg-query -W libalpha", "read"),
        ("rpm -qi libalpha", "read"),
        ("dpkg -i libalpha.deb", "install"),
        ("dpkg --purge libalpha", "install"),
        ("rpm -Uvh libalpha.rpm", "install"),
    ],
)
def test_to_ask_for_packages_of_a_list_is_to_read(line: str, effect: str) -> None:
    """G-250: who asks for four that are not installed goes through a list, and guesses nothing."""
    (command,) = simple_commands(line)
    assert effect_of(command) == effect
