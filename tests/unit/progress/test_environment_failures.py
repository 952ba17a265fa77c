"""Failures of the surroundings, as they stood in sessions that people published of agents at work.

A shell whose folder was removed, addresses that are guessed, a network that times out, a server that does not start,
and what somebody who is not let in should look at.
"""

from __future__ import annotations

import json

import pytest

from tellback.guidance.next_steps import LACKING_STEP, MISSING_PAGES_STEP
from tellback.guidance.progress.substance import is_absent
from tests.support.dialects import MadeCall, claude_code, mini_swe_agent, nudges_in, spoken
from tests.support.stretches import claude_edit


def fetched(path: str, said: str = "Request failed with status code 404") -> MadeCall:
    return "WebFetch", {"url": f"https://docs.example/{path}", "prompt": "How?"}, said


def test_addresses_that_are_guessed_one_after_another_are_reported_at_the_fourth() -> None:
    asked = [
        fetched("guide"),
        claude_code("curl -sL https://docs.example/v2/guide.zip -w 'HTTP: %{http_code}' -o g.zip", "HTTP: 404"),
        claude_code("curl -s -o /dev/null -w '%{http_code}' https://docs.example/latest", "404"),
        fetched("api/guide.html", "Failed to fetch https://docs.example/api/guide.html - status code 404"),
    ]
    ((call, feedback),) = nudges_in(asked)
    assert call == 4
    assert feedback.summary == "The last 4 addresses or names that you asked for, since call 1, do not exist."
    assert feedback.suggestions == (MISSING_PAGES_STEP,)


def test_names_that_are_guessed_of_a_service_are_reported_as_addresses_are() -> None:
    calls: list[MadeCall] = [
        ("get_file_contents", {"repo": "shop", "path": f"src/{name}.ts"}, "failed to get contents: 404 Not Found []")
        for name in ("main", "index", "app", "server", "start")
    ]
    ((call, feedback),) = nudges_in(calls)
    assert (call, feedback.suggestions) == (4, (MISSING_PAGES_STEP,))
    there: MadeCall = ("get_file_contents", {"repo": "shop", "path": "src"}, "shop.ts cart.ts")
    assert nudges_in([*calls[:3], there, *calls[3:]]) == []


@pytest.mark.parametrize(
    "said",
    [
        "curl: (22) The requested URL returned error: 404",
        "ERROR: HTTP error 404 while getting https://docs.example/guide",
        "HTTP Error 410: Gone",
    ],
)
def test_the_step_after_commands_that_reach_no_page_asks_for_no_right(said: str) -> None:
    calls = [claude_code(f"get https://docs.example/v{n}", f"Exit code 1\n{said}") for n in range(3)]
    ((_, feedback),) = nudges_in(calls)
    assert feedback.suggestions == (MISSING_PAGES_STEP,)


def test_a_fetched_page_is_quoted_by_its_status() -> None:
    record = {"bytes": 90, "code": 403, "codeText": "Forbidden", "result": "<head><title>Just a moment</title></head>"}
    ((_, feedback),) = nudges_in([fetched(f"page/{n}", json.dumps(record)) for n in range(3)])
    assert feedback.observations[0].value == "HTTP 403 Forbidden"
    assert "`https://docs.example/page/2`" in feedback.suggestions[0]
    said = "The server returned HTTP 403 Forbidden.\n\nThe response body was not retrieved."
    assert [call for call, _ in nudges_in([fetched(f"page/{n}", said) for n in range(3)])] == [3]


def test_a_page_that_is_there_ends_the_row_of_those_that_are_not() -> None:
    found = fetched("index", "The guide has three parts.")
    assert nudges_in([fetched("a"), fetched("b"), fetched("c"), found, fetched("d"), fetched("e"), fetched("f")]) == []


@pytest.mark.parametrize(
    ("said", "absent"),
    [
        ("404", True),
        ("HTTP/2 404 \ndate: Thu, 12 Jun 2025 01:59:09 GMT\ncontent-type: text/html", True),
        ("curl: (22) The requested URL returned error: 404", True),
        ("Resolving a.example... done\nHTTP request sent, awaiting response... 404 Not Found", True),
        ("<!DOCTYPE html>\n<html><head><title>404: This page could not be found</title>\n</head>\n</html>", True),
        ("<html><body><pre>Cannot GET /api/audio/status</pre></body></html>", True),
        ('{"id": 404, "title": "Room 404", "status": "open"}', False),
        ("Line 404 of 410 was read", False),
        ("<html><title>Errors of HTTP</title><p>Not found is 404.</p></html>", False),
        ("200", False),
    ],
)
def test_what_says_that_an_address_does_not_exist(said: str, *, absent: bool) -> None:
    assert is_absent(said) is absent


def test_a_port_in_an_error_is_no_line_of_a_file() -> None:
    said = (
        "Error: RPC request failed: error sending request for url (http://localhost:8899/): broken pipe\n\n"
        "Config File: /home/u/.config/cli/config.yml\nCommitment: confirmed"
    )
    calls = [
        call
        for n, command in enumerate(("make chain", "npm run chain", "./chain.sh"))
        for call in (claude_edit(n), claude_code(command, said, 1))
    ]
    ((call, feedback),) = nudges_in(calls)
    assert (call, feedback.observations[0].value) == (6, said.partition("\n")[0].removeprefix("Error: "))


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("To github.com:a/b.git\n ! [rejected]  main -> main\nerror: failed to push some refs", "failed to push some"),
        ("Auto-merging a.py\nCONFLICT (content): Merge conflict in a.py\nAutomatic merge failed", "Merge conflict in"),
    ],
)
def test_what_git_refuses_is_quoted_by_its_error_and_not_by_its_first_line(said: str, named: str) -> None:
    calls = [claude_code(f"git push origin main{option}", said, 1) for option in ("", " -v", " --progress", " -q")]
    ((_, feedback),) = nudges_in(calls)
    assert named in feedback.observations[0].value


def test_a_start_that_is_waited_for_is_an_attempt_though_it_shows_something_else_each_time() -> None:
    said = "Error: failed to start validator: extra entry found in the genesis archive\n"
    said += "Keypair Path: id.json\nCommitment: confirmed\nWebSocket URL: computed\nLedger of {}"
    starts = ("rm -rf ledger", "find . -name '._*' -delete", "rm -rf /tmp/ledger")
    calls = [
        claude_code(f"{start}; validator --reset & sleep 8; validator status", said.format(start.split()[-1]), 1)
        for start in starts
    ]
    assert spoken(calls) == [3]


def test_nobody_is_sent_to_read_code_when_a_network_times_out() -> None:
    said = "Error: cluster version query failed: error sending request: operation timed out"
    calls = [mini_swe_agent(f"solana program deploy a.so{option}", said, 1) for option in ("", " -u devnet", " -v")]
    assert [(call, each.suggestions) for call, each in nudges_in(calls)] == [(3, (LACKING_STEP,))]


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("EACCES: permission denied, open '/etc/icecast2/icecast.xml'", "`/etc/icecast2/icecast.xml`"),
        ("HTTP status client error (401 Unauthorized) for url (https://rpc.example/v1)", "`https://rpc.example/v1`"),
        ("Error: the server returned HTTP 403 Forbidden.", "`https://a.example/2`"),
        ("git@github.com: Permission denied (publickey).", "`git@github.com`"),
    ],
)
def test_the_step_after_a_refusal_names_what_to_check(said: str, what: str) -> None:
    asked = [claude_code(f"deploy https://a.example/{n}", said, 1) for n in range(3)]
    ((_, feedback),) = nudges_in(asked)
    assert feedback.suggestions == (f"Check {what}, and which right or key it asks for; ask for that, or do without.",)


def test_the_folder_that_a_command_runs_in_was_not_refused() -> None:
    denied = "npm error code E401\nnpm error Incorrect or missing password."
    ((_, feedback),) = nudges_in([claude_code(f"cd /srv/web && npm {each}", denied, 1) for each in ("ci", "i", "i -f")])
    assert feedback.suggestions[0].startswith("Check the address and the account, ")


def answered(n: int, message: str) -> MadeCall:
    error = {"code": "INTERNAL_ERROR", "message": message, "timestamp": f"2026-07-23T22:0{n}:10.123Z"}
    said = json.dumps({"success": False, "error": error}, indent=2)
    return claude_code(f'curl -s -X POST localhost:3001/accounts -d \'{{"name":"n{n}"}}\' | jq .', said)


def test_the_same_refusal_of_a_service_is_quoted_by_its_message() -> None:
    calls = [call for n in range(3) for call in (claude_edit(n), answered(n, "Encryption failed"))]
    ((call, feedback),) = nudges_in(calls)
    assert (call, feedback.observations[0].value) == (6, "Encryption failed")


def test_refusals_with_other_messages_are_no_repeats() -> None:
    said = ("Encryption failed", "Invalid query parameters", "Name is taken")
    assert nudges_in([call for n in range(3) for call in (claude_edit(n), answered(n, said[n]))]) == []


def polled(shell: str, said: str) -> MadeCall:
    return "BashOutput", {"bash_id": shell}, f"<status>running</status>\n\n<stdout>\n{said}\n</stdout>"


def test_a_poll_that_shows_no_failure_yet_does_not_forgive_the_ones_before() -> None:
    trace = 'Traceback (most recent call last):\n  File "app.py", line 4, in get\n    x\nTypeError: not iterable at all'
    calls: list[MadeCall] = []
    for n in range(3):
        params: dict[str, object] = {"command": "python app.py", "run_in_background": True}
        started: MadeCall = ("Bash", params, f"Running with ID: s{n}")
        calls += [claude_edit(n), started, polled(f"s{n}", "Running on port 7860"), polled(f"s{n}", trace)]
    assert spoken(calls) == [12]


def test_an_error_that_was_examined_again_is_dated_by_the_last_run() -> None:
    said = "Traceback (most recent call last):\n  File \"app.py\", line 4, in get\n    x\nKeyError: 'indexes'"
    others = [claude_code(f"make step{n}", f"step {n} of the build is done") for n in range(7)]
    first, again, third, last = (
        claude_code(command, said, 1) for command in ("python app.py", "./start.sh", "uvicorn app", "make serve")
    )
    calls = [first, *others, again, claude_edit(1), third, claude_edit(2), last]
    assert spoken(calls) == [len(calls)]


def test_that_a_service_failed_asks_nobody_to_retry_it() -> None:
    assert [call for call, _ in nudges_in([answered(n, "Encryption failed") for n in range(4)])] == [3]


def test_what_is_sent_to_a_service_may_change_what_others_ask_it() -> None:
    asked = claude_code("docker exec chat history room | grep -c message", "3")
    sent = [
        claude_code(f"curl -s {option} '{{\"n\": {n}}}' localhost:3446/send", f'{{"id": "m{n}"}}')
        for n, option in enumerate(("-X POST -d", "--json", "--data-raw", "-d"))
    ]
    assert nudges_in([call for each in sent for call in (asked, each)]) == []


def test_the_same_thing_sent_again_and_again_is_the_same_call() -> None:
    sent = claude_code("curl -s -X POST -d '{}' localhost:3446/send", '{"queued": 0, "state": "idle"}')
    assert [call for call, _ in nudges_in([sent] * 3)] == [3]


def missing(path: str, n: int) -> MadeCall:
    said = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    return claude_code(
        f"python step{n}.py", f'Traceback (most recent call last):\n  File "step{n}.py", line 9\n{said}', 1
    )


@pytest.mark.parametrize(
    ("paths", "heard"),
    [
        (("/tmp/orders.csv", "/tmp/out/rates.json", "/var/lib/app/state1.db", "/tmp/report_v12.csv"), False),
        (("/tmp/orders.csv",) * 4, True),
        (("/tmp/tmpab12cd", "/tmp/tmpx9_2dq8a", "/tmp/tmpabcdefgh", "/tmp/tmp.aBcDeFgHiJ"), True),
        (("/tmp/order_x7k2m9qa.csv", "/tmp/order_b3v8t1wz.csv", "/tmp/order_p5n6c4rd.csv"), True),
        (tuple(f"/tmp/pytest-of-u/pytest-{n}/out.txt" for n in range(3)), True),
    ],
)
def test_of_temporary_files_those_that_a_program_named_are_one(paths: tuple[str, ...], *, heard: bool) -> None:
    """Requirement G-403. Four files of an agent's own in /tmp that were not there yet were one error."""
    calls = [each for n, path in enumerate(paths) for each in (claude_edit(n), missing(path, n))]
    assert bool(spoken(calls)) is heard
