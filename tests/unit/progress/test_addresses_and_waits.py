"""Addresses, waits and searches: each way to be stuck beside a healthy twin that looks alike."""

from __future__ import annotations

import pytest

from tests.support.dialects import (
    MadeCall,
    Shell,
    claude_code,
    codex_json,
    mini_swe_agent,
    openhands,
    spoken,
    swe_agent,
    woven,
)
from tests.support.stretches import claude_edit

SHELLS: list[Shell] = [claude_code, codex_json, mini_swe_agent, openhands, swe_agent]
NOT_FOUND = '{"error": "not found"}\n404'
METER = (
    "  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n"
    "                                 Dload  Upload   Total   Spent    Left  Speed\n"
    "\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0"
    "\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0\n"
)
REFUSED = "curl: (7) Failed to connect to localhost port 8000 after {0} ms: Couldn't connect to server"
SILENT = "Your command ran successfully and did not produce any output."
LOG = "starting\npart 1 of 3\npart 2 of 3"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_fault_of_a_service_is_that_of_the_address_that_was_asked(shell: Shell) -> None:
    """G-259: routes that are added one by one are absent before; one that stays so after each edit is reported."""
    routes = [shell(f"curl -s -w '%{{http_code}}' localhost:8000/{name}", NOT_FOUND) for name in "abcdef"]
    assert not spoken(woven([claude_edit(n) for n in range(6)], routes))
    assert spoken(woven([claude_edit(n) for n in range(4)], routes[:1] * 4)) == [6]


@pytest.mark.parametrize("shell", SHELLS)
def test_one_address_that_refuses_whatever_header_is_sent_is_reported(shell: Shell) -> None:
    """G-260: though nothing else was changed; other addresses that refuse are other questions."""
    said = "You shall not pass: invalid request"
    headers = ("", "-H 'X-User: a'", "-H 'X-Tenant: b'", "-H 'Accept: c'")
    assert spoken([shell(f"curl -s {each} localhost:8000/orders", said) for each in headers]) == [3]
    assert not spoken([shell(f"curl -s localhost:8000/orders/{n}", said) for n in range(4)])


@pytest.mark.parametrize("said", ["invalid token", "Bad credentials", "Missing API key"])
def test_who_is_not_known_is_refused_whatever_is_asked(said: str) -> None:
    """G-269: a service that does not find one thing after another refuses nobody."""
    paths = ("orders", "users/1", "stock")
    assert spoken([claude_code(f"curl -s localhost:8000/{each}", f'{{"error": "{said}"}}') for each in paths]) == [3]
    missing = [claude_code(f"curl -s localhost:8000/{each}", f'{{"error": "no {each}"}}') for each in paths]
    assert not spoken(missing)
    scripts = [claude_code(f"node {each}.js", f"SyntaxError: invalid token at {each}.js", 1) for each in "abc"]
    assert not spoken(scripts)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_server_that_is_away_is_known_whatever_is_printed_beside_it(shell: Shell) -> None:
    """G-261: how far the client has come, and what it says of the connection, is no error."""
    tails = ("0     0    0     0 --:--:-- --:--:-- --:--:--     0\n* Closing connection 0\n", METER, "", METER)
    ways = ("-v {0} 2>&1 | tail -3", "-i {0}", "-sS {0}", "-i {0}")
    calls = [
        shell(f"curl {way.format(f'localhost:8000/{n}')}", tail + REFUSED.format(n), 7)
        for n, (way, tail) in enumerate(zip(ways, tails, strict=True))
    ]
    assert spoken(calls) == [3]


def test_the_answer_of_a_route_that_does_not_exist_is_known_in_json() -> None:
    """G-262: of FastAPI and others; the answer about a thing by its name says nothing of the route."""
    guesses = ("api", "v1/orders", "rest", "graphql", "docs")
    assert spoken([claude_code(f"curl -s localhost:8000/{each}", '{"detail": "Not Found"}') for each in guesses]) == [4]
    things = [(f"curl -s localhost:8000/users/{n}", f'{{"detail": "user {n} not found"}}') for n in range(5)]
    assert not spoken([claude_code(asked, said) for asked, said in things])


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_linker_misses_is_the_same_wherever_it_misses_it(shell: Shell) -> None:
    """G-263: an option more moves the place; another name that is missing is another error."""
    places = ("run.c:(.text+0x3c3)", "/usr/bin/ld: run.c:(.text+0x453)", "/r/tests/run.c:38")
    said = "{0}: undefined reference to `{1}'\ncollect2: error: ld returned 1 exit status"
    same = [shell("make test", said.format(place, "tax"), 2) for place in places]
    assert spoken(woven([claude_edit(n) for n in range(3)], same)) == [6]
    others = [shell("make test", said.format(place, f"tax_{n}"), 2) for n, place in enumerate(places)]
    assert not spoken(woven([claude_edit(n) for n in range(3)], others))


@pytest.mark.parametrize("shell", SHELLS)
def test_waits_of_any_length_that_show_the_same_are_waits_for_one_thing(shell: Shell) -> None:
    """G-264: whichever program looks; a log that goes on is alive."""
    lines = [
        f"sleep {60 * n}; {command} job.log" for n, command in enumerate(("tail -3", "cat", "tail -n 3") * 2, start=1)
    ]
    assert spoken([shell(line, LOG) for line in lines]) == [6]
    assert not spoken([shell(line, f"{LOG}\npart {n} of 90") for n, line in enumerate(lines, start=3)])


@pytest.mark.parametrize("shell", SHELLS)
def test_searches_that_find_nothing_are_a_row_only_close_together(shell: Shell) -> None:
    """G-265: a review that views for one thing in each commit."""
    calls: list[MadeCall] = []
    for n in range(8):
        calls.append(shell(f"grep -rn 'part {n}' src", "", 1))
        calls += [shell(f"git show --stat HEAD~{5 * n + k}", f"file_{n}_{k}.py | {k} +-") for k in range(5)]
    assert not spoken(calls)
    assert spoken([shell(f"grep -rn 'part_{'xyzabcde'[n]}' src", "", 1) for n in range(8)]) == [6]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_read_long_ago_may_be_read_again(shell: Shell) -> None:
    """G-266: over 25 calls an agent loses sight of a file; within them the third time is reported."""
    views = [shell(f"git show HEAD~{n}:part_{n}.py", f"value_{n} = {n * 37}\nname_{n} = 'x{n * 7}'") for n in range(90)]
    read = shell("cat app.py", "import os\n\nprint(os.name)\nprint(os.sep)\nprint(os.linesep)")
    assert not spoken([read, *views[:28], read, *views[28:56], read, *views[56:84], read])
    assert spoken([read, *views[:9], read, *views[9:18], read]) == [21]


@pytest.mark.parametrize("shell", SHELLS)
def test_command_lines_with_secrets_are_not_taken_for_one_another(shell: Shell) -> None:
    """G-267: the mark in their place says nothing of what they ask."""
    token = "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.c2Vzc2lvbg.c2lnbmF0dXJl"
    calls = [shell(f"curl -s -X POST -H '{token}' localhost:8000/items/{n}", '{"ok": true}') for n in range(6)]
    assert not spoken(calls)


def test_no_output_at_all_is_no_fault_of_a_script() -> None:
    """G-268: whatever words a program has for it."""
    silent: MadeCall = ("bash", {"command": "python build.py"}, SILENT)
    assert not spoken(woven([claude_edit(n) for n in range(5)], [silent] * 5))


def test_waits_at_a_screen_are_the_same_however_long_they_are() -> None:
    """G-293: what the tool does depends on a value, so its name alone does not show that it waits."""
    waits: list[MadeCall] = [("computer", {"action": "wait", "duration": n}, "") for n in range(6)]
    assert spoken(waits) == [6]
