"""Calls that look alike but move something, and calls that look different but meet the same wall."""

from __future__ import annotations

import json

import pytest

from tellback.guidance.progress.failed_tests import failed_names
from tellback.guidance.progress.substance import fingerprint, last_exception
from tests.support.dialects import MadeCall, claude_code, codex_exec, mini_swe_agent, openhands, reported


def sql(query: str, answer: str) -> MadeCall:
    return "mcp__pg__query", {"sql": query}, answer


def grep(pattern: str, path: str, found: str = "No files found") -> MadeCall:
    return "Grep", {"pattern": pattern, "path": path}, found


def script(path: str, line: int, error: str) -> MadeCall:
    heredoc = f"cat > {path} <<'EOF'\n" + "x = 1\n" * line + f"EOF\npython {path}"
    trace = f'Traceback (most recent call last):\n  File "{path}", line {line}, in <module>\n    p.go()\n{error}'
    return mini_swe_agent(heredoc, trace, 1)


def asked_to_wait(tool: str, answer: str) -> MadeCall:
    return f"mcp__export__{tool}", {"job": "j-17"}, answer


def edit(old: str, new: str) -> MadeCall:
    return "Edit", {"file_path": "/r/tax.py", "old_string": old, "new_string": new}, "The file has been updated."


def tax(shown: str) -> MadeCall:
    failed = "E   assert 3 == 4\nFAILED t.py::test_tax - assert 3 == 4\n1 failed in 0.1s"
    return claude_code("pytest -q -s t.py", f"{shown}{failed}", 1)


RAN = "Expected: 3\n  Actual: 2\n\n4 runs, 9 assertions, 1 failures, 0 errors, 0 skips"
LEFT = "The output of the command was:\n <output>\nlistening\n</output>\n"


HEALTHY: dict[str, list[MadeCall]] = {
    "a wait that fails and shows more each time": [
        codex_exec(
            "sleep 9; kubectl rollout status deploy/web --timeout=1s",
            f"Waiting for rollout to finish: {n} out of 10 updated...\nerror: timed out waiting for the condition",
            1,
        )
        for n in range(1, 10)
    ],
    "a statement that changes other rows each time": [
        sql("update users set country = 'DE' where id in (select id from todo limit 500)", "UPDATE 500")
        for _ in range(8)
    ],
    "a build with other options": [
        call
        for n in range(6)
        for call in (
            codex_exec(f"cmake -S . -B build -DLEVEL={n}", "-- Configuring done"),
            codex_exec("stat -c %s build/app", str(9000 + 37 * n)),
        )
    ],
    "cells without output of a notebook": [
        (
            "execute_ipython_cell",
            {"code": f"frame['c{n}'] = load({n})\nassert frame.size"},
            "[Code executed successfully with no output]\n[Jupyter current working directory: /w]",
        )
        for n in range(6)
    ],
    "one word that is nowhere any more": [
        openhands("sed -i s/old_name/new_name/ api.py"),
        *[grep("old_name", f"/r/part{n}") for n in range(12)],
    ],
    "findings of one kind in other places": [
        call
        for n in range(5)
        for call in (
            mini_swe_agent(f"sed -i 's/sorry{n}/simp{n}/' P.lean"),
            mini_swe_agent("lake build", f"error: P.lean:{n + 9}:2: unsolved goals\ncase h{n}", 1),
        )
    ],
    "a job whose answer asks to wait": [
        *[asked_to_wait("get_job", "Not ready. Please retry in 30 seconds.") for _ in range(4)],
        asked_to_wait("get_job", "done"),
    ],
    "a service whose error asks to wait": [
        *[asked_to_wait("send_mail", "Error 429: rate limited. Please retry after 5 seconds.") for _ in range(3)],
        asked_to_wait("send_mail", "sent"),
    ],
    "a database that is copied back between scenarios": [
        mini_swe_agent("cp app.db /tmp/app.db.clean"),
        *[
            call
            for n, name in enumerate(("upgrade", "prune", "reindex", "vacuum"))
            for call in (
                mini_swe_agent(f"python -m app.migrate {name}", f"{name}: {19 * n} rows"),
                mini_swe_agent("cp /tmp/app.db.clean app.db"),
            )
        ],
    ],
    "prints added while a failure is examined": [
        tax(""),
        edit("rate = r", 'rate = r\n    print("rate", rate)'),
        tax("rate 0.19\n"),
        edit("base = b", 'base = b\n    logger.debug("base %s", base)'),
        tax("rate 0.19\nbase is 20 euros\n"),
        edit('    print("rate", rate)\n', ""),
        tax("base is 20 euros\n"),
    ],
    "prints in the place of other prints": [
        tax(""),
        edit("rate = r", 'rate = r\n    print("rate", rate)'),
        tax("rate 0.19\n"),
        edit('print("rate", rate)', 'print("base of the tax", base)'),
        tax("base of the tax 20\n"),
        edit('print("base of the tax", base)', 'print("rows", len(rows))'),
        tax("rows that were read: 31\n"),
    ],
    "a benchmark that runs twice after each edit": [
        call
        for n in range(5)
        for call in (
            edit(f"limit // {n}", f"limit // {n + 1}"),
            *[claude_code("python bench.py", f"431 found, {90 - 9 * n - k}.4 ms") for k in range(2)],
        )
    ],
    "checks of make that get fewer": [
        call
        for n in range(5, 1, -1)
        for call in (
            edit(f"limit - {n}", f"limit + {n}"),
            mini_swe_agent("make -s check", f"unequal results={n}\nmake: *** [Makefile:5: check] Error 1", 2),
        )
    ],
    "a crash with ever smaller inputs": [
        call
        for n in (64, 32, 16, 8)
        for call in (
            edit(f"blocks = {n * 2}", f"blocks = {n}"),
            claude_code("./run.sh", f"loading {n} blocks\nlast block {n:08x}\nSegmentation fault (core dumped)", 139),
        )
    ],
    "one test that fails otherwise after each edit": [
        call
        for n in range(5)
        for call in (
            mini_swe_agent(f"sed -i 's/a{n}/b{n}/' app.py"),
            mini_swe_agent("pytest -q", f"FAILED t.py::test_a - {'TypeError: a' * (n % 2)}{n}: b\n1 failed in 0.1s", 1),
        )
    ],
}


IDLING: list[MadeCall] = [
    claude_code("sleep 60"),
    mini_swe_agent("sleep 45"),
    codex_exec("sleep 30"),
    ("wait", {"seconds": 60}, "waited"),
]


@pytest.mark.parametrize("wait", IDLING)
def test_a_wait_is_judged_by_what_other_calls_show_after_it(wait: MadeCall) -> None:
    moving = [mini_swe_agent("tail -2 train.log", f"epoch {n} of 20\nloss {3 / (n + 1):.4f}") for n in range(10)]
    still = [mini_swe_agent("tail -2 train.log", "epoch 1 of 20\nloss 1.5000") for _ in range(10)]
    assert reported([call for each in moving for call in (wait, each)]) == []
    assert reported([call for each in still for call in (wait, each)]) != []


@pytest.mark.parametrize("name", list(HEALTHY))
def test_what_moves_is_not_reported(name: str) -> None:
    assert reported(HEALTHY[name]) == []


STUCK: dict[str, list[MadeCall]] = {
    "a server that refuses every address": [
        codex_exec(f"psql -h {host} -c 'select {n}'", f'psql: error: server at "{host}" failed: Connection refused', 2)
        for n, host in enumerate(("localhost", "127.0.0.1", "::1"))
    ],
    "three tools of a server that denies every path": [
        (
            f"mcp__files__{tool}",
            {"path": path},
            f"Error: Access denied - path outside allowed directories: {path} not in /home/u",
        )
        for tool, path in (("read_file", "/var/a"), ("list_directory", "/var"), ("get_info", "/etc/b"))
    ],
    "a column that is missing, with other queries that work": [
        call
        for n in range(3)
        for call in (
            sql(f"select owner_id, {n} from t", 'Error: column "owner_id" does not exist'),
            sql(f"select count(*) + {n} from u", json.dumps([{"count": n}])),
        )
    ],
    "growing scripts that call what is not there": [
        script(f"/r/check_{n}.py", n + 2, "AttributeError: 'P' object has no attribute 'go'") for n in range(3)
    ],
    "texts that no row has": [
        sql(f"select id from tickets where body like '%{word}%'", "[]")
        for word in ("refund", "refunds", "money back", "return", "reimburse", "repay")
    ],
    "a lock whose request has another id each time": [
        codex_exec(
            f"terraform plan -out={n}.plan",
            f"Error: Error acquiring the state lock\n\nRequestID:\n{n + 10:02X}F3A91B77C2, LockID: 7",
            1,
        )
        for n in range(3)
    ],
    "a pod that starts again and again": [
        codex_exec(
            f"sleep {n}; kubectl get pods",
            f"NAME  READY  STATUS            RESTARTS     AGE\nw-1   0/1    CrashLoopBackOff  {n} ({9 + n}s ago)  {n}m",
        )
        for n in range(3, 6)
    ],
    "a cluster that is unreachable": [
        codex_exec(
            f"helm {words}", f'Error: cluster unreachable: Get "https://10.0.0.{n}:6443": expired on {n}.11.2026', 1
        )
        for n, words in enumerate(("list", "upgrade web ./chart", "get all web"))
    ],
    "a migration that fails by the label of its error": [
        call
        for n in range(3)
        for call in (
            mini_swe_agent(f"sed -i 's/a{n}/b{n}/' 7.sql"),
            mini_swe_agent(f"flyway migrate -X{n}", f"Flyway: ERROR: Migration 7.sql failed\nState: 2\nLine: {n}", 1),
        )
    ],
    "a test of another framework, in other selections": [
        call
        for n, words in enumerate(("test/cart_test.rb", "test", "test/cart_test.rb -v"))
        for call in (
            mini_swe_agent(f"sed -i 's/a{n}/b{n}/' cart.rb"),
            mini_swe_agent(f"bin/rails test {words}", f"Seed {n}7\n\nFailure:\nCart#test_n [c.rb:9]:\n{RAN}", 1),
        )
    ],
    "a script of the shell whose last line says what is wrong": [
        call
        for n in range(3)
        for call in (edit(f"limit - {n}", f"limit + {n}"), claude_code("bash all.sh | tail -1", "ended with errors"))
    ],
    "a program that never ends": [
        (
            "bash",
            {"command": f"python server.py {option}"},
            f"The last command <command>python server.py {option}</command> timed out and has been killed.\n{LEFT}",
        )
        for option in ("", "--debug", "--verbose")
    ],
}


@pytest.mark.parametrize("name", list(STUCK))
def test_the_same_wall_is_reported_whatever_was_asked(name: str) -> None:
    found = reported(STUCK[name])
    assert len(found) == 1
    assert len(STUCK[name]) - 1 <= found[0][0] <= len(STUCK[name])


def test_success_in_between_makes_refusals_those_of_some_hosts() -> None:
    refused = [
        codex_exec(f"ssh web-{n} uptime", f"ssh: connect to host web-{n} port 22: Connection refused", 255)
        for n in range(4)
    ]
    up = [codex_exec(f"ssh db-{n} uptime", f"up {n} days") for n in range(4)]
    assert reported([call for pair in zip(refused, up, strict=True) for call in pair]) == []
    assert reported(refused) != []


def test_an_error_of_a_list_is_one_item_of_it() -> None:
    calls: list[MadeCall] = [
        ("get_user", {"id": f"u{n}"}, "Error: user not found" if n % 3 == 0 else f'{{"name": "{n}"}}')
        for n in range(14)
    ]
    assert reported(calls) == []


def test_the_last_reason_of_a_summary_is_the_exception_of_a_run() -> None:
    said = "FAILED t.py::test_a - KeyError: 'a'\nFAILED t.py::test_b - assert 1 == 2\n2 failed in 0.1s"
    assert last_exception(said) == "assert 1 == 2"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("  ● cart \u203a keeps the coupon", "cart \u203a keeps the coupon"),
        (" FAIL  src/a.test.ts > cart > adds", "src/a.test.ts > cart > adds"),
        ("Error:\nCartTest#test_add:", "CartTest#test_add:"),
        ("rspec ./spec/cart_spec.rb:14 # Cart adds", "./spec/cart_spec.rb:14"),
        ("[ERROR]   CartTest.adds:31 expected: <3> but was: <2>", "CartTest.adds"),
        ("CartTest > adds() FAILED", "CartTest > adds()"),
        ("  Failed Shop.CartTests.Adds [12 ms]", "Shop.CartTests.Adds"),
        ("1) CartTest::testAdd", "CartTest::testAdd"),
        ("  2) test adds (CartTest)", "test adds (CartTest)"),
        ("  1) Failure:\nCartTest#test_add [test/cart_test.rb:9]:", "CartTest#test_add"),
        ("  2) Error:\nCartTest#test_add:", "CartTest#test_add:"),
        ("adds a coupon ... FAILED (5ms)", "adds a coupon"),
        ("  keeps it ... FAILED (1s)", "keeps it"),
        ("adds a coupon => ./cart_test.ts:3:6", "adds a coupon"),
    ],
)
def test_the_names_of_failed_tests_are_known_in_many_forms(said: str, name: str) -> None:
    assert failed_names(f"Ran\n{said}\nDone") == (name,)


def test_ids_in_capitals_are_no_news() -> None:
    assert fingerprint("RequestID: 9F3A91B77C2D0") == fingerprint("RequestID: 1A3A91B77C2DF")
    assert fingerprint("DEFACED BEACONS") != fingerprint("DEFACED FACADES")
