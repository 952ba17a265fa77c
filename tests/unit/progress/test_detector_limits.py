"""More conditions of detectors, each with calls that it alone decides about."""

from __future__ import annotations

import pytest

from tests.support.dialects import MadeCall, claude_code, reported, spoken
from tests.support.stretches import claude_edit
from tests.unit.progress.test_detector_conditions import Calls, between, checked, passage, with_tests, written


def replaced(old: str, new: str) -> MadeCall:
    return "Edit", {"file_path": "/r/app.py", "old_string": old, "new_string": new}, "The file has been updated."


def clicked(name: str, said: str) -> MadeCall:
    return "browser_click", {"element": name, "ref": "e1"}, said


def typed(n: int) -> MadeCall:
    return "browser_type", {"element": "Name", "ref": "e5", "text": f"try {n}"}, f"typed {n}"


def viewed(n: int) -> MadeCall:
    return "browser_snapshot", {}, rows(n)


def rows(n: int) -> str:
    return "\n".join(f"- row {n * 'a'} of {m * 'b'} things" for m in range(9))


def saved(_: int) -> MadeCall:
    return clicked("Save", "- alert: the name is invalid")


def polled(_: int) -> MadeCall:
    return "BashOutput", {"bash_id": "b1"}, "<tool_use_error>Error: the server failed</tool_use_error>"


def configured(_: int) -> MadeCall:
    return "Write", {"file_path": "/r/a.cfg", "content": "x = 1"}, "File created successfully at: /r/a.cfg"


def breaking(n: int) -> MadeCall:
    return claude_code(f"./check{n * 'a'}", f"KeyError: 'thing {n * 'a'}b'", 1)


def inserted(n: int) -> MadeCall:
    params: dict[str, object] = {"command": "insert", "path": "/r/app.py", "insert_line": n, "new_str": "log()"}
    return "str_replace_editor", params, "The file /r/app.py has been edited."


def searched(pattern: str) -> MadeCall:
    return "Grep", {"pattern": pattern}, "No matches found"


PAGE = [f"row {n * 'b'} of the things" for n in range(9)]


def page(n: int, lines: int = 5) -> str:
    return "\n".join(f"page {n * 'a'} has {m * 'b'} things" for m in range(lines))


def known_lines(n: int) -> str:
    return "\n".join(PAGE[n % 7 : n % 7 + 2])


def probed(n: int, said: str) -> MadeCall:
    return claude_code(f"python -c 'print(known({n * 'a'}b))'", said)


def shown_file(path: str, said: str) -> MadeCall:
    return "Read", {"file_path": path}, said


def named_test(n: int) -> MadeCall:
    test = "tests/test_orders.py::test_the_total_of_all_of_the_orders_of_a_customer_that_were_paid"
    return "run_tests", {"name": test + n * "x"}, "3 passed in 0.2s"


def gone(n: int) -> MadeCall:
    address = f"https://example.com/shop/customers/orders/of/the/year/and/all/that/was/paid/s{n * 's'}"
    return "WebFetch", {"url": address, "prompt": "list the orders of the customers"}, "<pre>Cannot GET /orders</pre>"


REPORTED: dict[str, tuple[Calls, int]] = {
    "probes of several lines that end alike": (
        [probed(n, "loaded the tables\nit is known to all") for n in range(4)],
        4,
    ),
    "lines that are read for the third time beside calls that are made again": (
        [
            passage(100, 0),
            *[claude_code(f"git {each}", f"nothing to say of {each}") for each in ("status", "diff", "log")],
            passage(100, 1),
            *[claude_code(f"git {each}", f"nothing to say of {each}") for each in ("status", "diff")],
            passage(100, 2),
        ],
        8,
    ),
    "a run is not forgotten as a look is": (
        [
            each
            for n in range(3)
            for each in (claude_code("./verify", "part one is fine"), *[checked(30 * n + m) for m in range(26)])
        ],
        55,
    ),
    "what is waited for has died, which its last line does not say": (
        [
            each
            for n in range(3)
            for each in (
                claude_code(f"sleep {n + 5}"),
                claude_code(f"ps -p 4711 {n * 'x'}", f"4711 <defunct>\n{n * 'a'} more"),
            )
        ],
        6,
    ),
    "lines beside others that differ": (
        [claude_code(f"sed -n '1,40p' app.py; cat part{n}.py", f"x = 1\nline {n * 'a'}") for n in range(4)],
        4,
    ),
    "tests that stay as bad between two that are worse": (
        [
            *with_tests(1, 9),
            *with_tests(2, 8, error="TypeError: b"),
            *with_tests(2, 8, error="OSError: c"),
            *with_tests(3, 7, error="IndexError: d"),
        ],
        8,
    ),
    "a refusal without a name": ([claude_code(f"./{each}", "Forbidden", 1) for each in ("deploy", "list", "show")], 3),
    "a page that answers a little to something else": (between(saved, 3, typed), 6),
    "a page after looks at others": (
        [each for n in range(3) for each in (typed(n), viewed(n), saved(n))],
        9,
    ),
    "tests behind a rest are no wait": (
        between(lambda _: claude_code("pytest -q", "3 passed in 0.1s"), 3, lambda n: claude_code(f"sleep {n + 5}")),
        4,
    ),
    "nothing is found for nearly one sentence": (
        [searched(f"the total of the orders of a customer that were paid{n * 'x'}") for n in range(3)],
        3,
    ),
    "tests that got worse in silence and stay so": (
        [
            *with_tests(1, 9),
            *with_tests(2, 9, error="TypeError: b"),
            *[claude_code("cat a.txt", "x = 1 is all")] * 3,
            *with_tests(3, 9, error="OSError: c"),
            *[checked(n) for n in range(26)],
            *with_tests(3, 9, error="IndexError: d"),
        ],
        7,
    ),
}


LET_PASS: dict[str, Calls] = {
    "thoughts that are nearly alike": [("scratchpad", {"note": f"idea {n * 'a'}"}, "Noted.") for n in range(9)],
    "commands that run and show known lines": [
        shown_file("/r/a.txt", "\n".join(PAGE)),
        *[claude_code(f"./show {n * 'a'}", known_lines(n)) for n in range(9)],
    ],
    "the answer to one of a row of questions": [probed(n, "it is known to all") for n in range(5)],
    "probes that are far apart": [
        each
        for n in range(4)
        for each in (
            probed(n, "loaded the tables\nit is known to all"),
            *[shown_file(f"/r/p{n}{m}", page(5 * n + m)) for m in range(5)],
        )
    ],
    "failures that say much alike": [
        claude_code(f"./run{each}", page(0) + "\nKeyError: 'x of y'", 1) for each in ("", "a", "ab")
    ],
    "searches that find one document": [
        ("Grep", {"pattern": f"w{each}ord"}, page(0)) for each in ("", "aaa", "bbbbbb")
    ],
    "a long answer that comes now and then": [
        each
        for n in range(4)
        for each in (claude_code(f"./status{n * 'a'}", page(0)), *[checked(10 * n + m) for m in range(6)])
    ],
    "a long answer after changes": between(
        lambda n: claude_code(f"./status{n * 'a'}", page(0)), 4, lambda n: claude_edit(n, f"/r/other{n}.py")
    ),
    "a short answer to several questions": [
        claude_code(f"grep {each} total app.py", "0") for each in ("-c", "-cw", "-cx", "-ci")
    ],
    "tests whose names are nearly alike": [named_test(n) for n in range(4)],
    "addresses that are nearly alike": [gone(n) for n in range(3)],
    "one edit that is made now and then": [
        each for n in range(4) for each in (replaced("a", "b"), *[checked(20 * n + m) for m in range(13)])
    ],
    "an edit that is made again long after it was taken back": [
        replaced("a", "b"),
        *[shown_file(f"/r/f{n}", page(n)) for n in range(9)],
        claude_code("git checkout app.py", "Updated 1 path from the index"),
        *[shown_file(f"/r/g{n}", page(n + 9)) for n in range(5)],
        replaced("a", "b"),
    ],
    "lines of which most are new": [
        *[passage(1, n) for n in range(3)],
        claude_code("sed -n '1,100p' app.py", "more lines"),
    ],
    "a few of many lines that were read": [
        *[claude_code(f"sed -n '{n},{n + 199}p' app.py", f"lines from {n}") for n in (1, 2, 3)],
        claude_code("sed -n '1,40p' app.py", "fewer lines"),
    ],
    "more failures in runs of fewer tests": [
        *with_tests(1, 50),
        *with_tests(2, 9, error="TypeError: b"),
        *with_tests(3, 2, error="OSError: c"),
    ],
    "tests that get better between two that are worse": [
        *with_tests(1, 9),
        *with_tests(3, 9, error="TypeError: b"),
        *with_tests(2, 9, error="OSError: c"),
        *with_tests(4, 9, error="IndexError: d"),
    ],
    "a shell that says something between failures without a word": [
        *[claude_code(f"ls {each}", "", 1) for each in "ab"],
        claude_code("ls c", "c.py"),
        claude_code("ls d", "", 1),
    ],
    "one failure without a word after others": [
        claude_code("./get a", "KeyError: 'a thing'", 1),
        claude_code("./put b", "OSError: another thing", 1),
        claude_code("ls d", "", 1),
    ],
    "a long wait that fails and shows something new": [
        claude_code("sleep 5; ./poll job-4711", f"step {n * 'x'} of the build goes on", 1) for n in range(9)
    ],
    "a look that fails after files that are new": between(polled, 5, written),
    "a file that is written as it was": between(breaking, 4, configured),
    "one text that is inserted in several places": between(inserted, 4, lambda n: claude_edit(n, f"/r/p{n}.py")),
    "an edit that is made again much later": [
        replaced("a", "b"),
        replaced("b", "a"),
        *[checked(n) for n in range(13)],
        replaced("a", "b"),
    ],
    "a page that was new each time": between(saved, 5, lambda n: clicked("Other", rows(n))),
    "nothing is found for words that are spelled otherwise": [
        searched(f"calculate.the.total.of.all.orders.of.customers.from.abroad{n * 'x'}") for n in range(3)
    ],
    "plans that say what is done": [
        ("update_plan", {"explanation": f"part {n} is done", "plan": []}, "Plan updated") for n in range(5)
    ],
}


@pytest.mark.parametrize("name", REPORTED)
def test_a_limit_of_a_detector_is_met(name: str) -> None:
    calls, expected = REPORTED[name]
    assert spoken(calls) == [expected]


@pytest.mark.parametrize("name", LET_PASS)
def test_a_limit_of_a_detector_is_not_met(name: str) -> None:
    assert reported(LET_PASS[name]) == []


def test_a_call_that_shows_something_new_is_not_where_known_lines_are_reported() -> None:
    """The silence after another report ends with it."""
    calls = [
        shown_file("/r/a.txt", "\n".join(PAGE)),
        *[claude_code("cat b.py", "x = 1 is all")] * 3,
        *[checked(n) for n in range(15)],
        *[claude_code(f"grep -n {(n + 1) * 'c'} a.txt", known_lines(n)) for n in range(9)],
        shown_file("/r/new.txt", page(5)),
    ]
    assert spoken(calls) == [4]
