"""Agents whose tools are browsers, MCP servers and clusters: what changes, what is waited for, what stays wrong."""

from __future__ import annotations

import json

import pytest

from tellback.guidance.next_steps import FAILING_CALL_STEP, LIMITED_STEP, SERVICE_STEP
from tests.support.dialects import MadeCall, claude_code, nudges_in
from tests.support.stretches import claude_edit


def made(tool: str, said: str = "Done.", **params: object) -> MadeCall:
    return tool, params, said


def pods(name: str, state: str = "CrashLoopBackOff", restarts: str = "3 (9s ago)") -> str:
    return f"NAME        READY   STATUS    RESTARTS   AGE\n{name}   0/1     {state}   {restarts}   61s"


def said_by(calls: list[MadeCall]) -> list[tuple[int, str]]:
    return [(call, feedback.summary) for call, feedback in nudges_in(calls)]


@pytest.mark.parametrize(
    "change",
    [
        made("mcp__lab__overwrite_cell", cell=4, source="x = 2"),
        made("mcp__grid__authorize_ingress", group="g-1", port=443),
        made("API-post-page", page="p", title="Plan"),
        claude_code("helm upgrade web ./chart", 'Release "web" has been upgraded.'),
        claude_code("terraform apply -auto-approve", "Apply complete! Resources: 0 added, 1 changed."),
        claude_code("oc delete pod web-1", 'pod "web-1" deleted'),
        claude_code("psql -c 'update carts set total = 0'", "UPDATE 7"),
    ],
    ids=lambda call: f"{call[0]} {call[1].get('command', '')}",
)
def test_what_may_change_a_service_makes_the_same_question_no_repeat(change: MadeCall) -> None:
    asked = made("mcp__shop__get_cart", '{"total": 9}', cart="c1")
    assert nudges_in([asked, asked, change, asked]) == []
    assert [call for call, _ in nudges_in([asked, asked, asked])] == [3]


@pytest.mark.parametrize(
    "reader",
    [
        claude_code("gh run view 77", "X main CI\nannotations: none"),
        claude_code("terraform output", 'url = "a.example"'),
        made("weather", "12 degrees", city="Paris"),
        made("calculator", "42", expression="6 * 7"),
        made("order_details", "2 shirts", order="o1"),
        made("wiki", "Ruby is a gem.", query="ruby"),
    ],
    ids=["gh", "terraform", "weather", "calculator", "details", "wiki"],
)
def test_a_call_that_only_asks_a_service_changes_nothing(reader: MadeCall) -> None:
    asked = made("mcp__shop__get_cart", '{"total": 9}', cart="c1")
    assert [call for call, _ in nudges_in([asked, reader, asked, asked])] == [4]


def test_a_search_that_is_posted_is_a_search() -> None:
    empty = json.dumps({"object": "list", "results": [], "has_more": False})
    words = ("roadmap", "plan", "Q3 plan", "Q3 roadmap", "goals", "OKR")
    asked = [made("mcp__notes__API-post-search", empty, query=word) for word in words]
    assert said_by(asked) == [(6, "The last 6 searches, since call 1, found nothing, whatever their words.")]


@pytest.mark.parametrize(
    "state",
    [
        '{"id": 7, "status": "in_progress", "conclusion": null}',
        '{"id": 7, "state": "QUEUED"}',
        "<status>running</status>",
        "Deployment d-7\nStatus: DEPLOYING",
        '{"StackStatus": "x", "status": "UPDATE_IN_PROGRESS"}',
    ],
)
def test_a_job_that_is_under_way_is_waited_for(state: str) -> None:
    asked, sleep = made("mcp__ci__get_build", state, id=7), made("sleep", "Slept for 60 seconds.", seconds=60)
    assert nudges_in([asked, asked, asked, asked, asked]) == []
    assert nudges_in([asked, sleep, asked, sleep, asked, sleep, asked]) == []
    assert [call for call, _ in nudges_in([asked] * 6)] == [6]


def test_a_job_that_is_over_is_not_waited_for() -> None:
    asked = made("mcp__ci__get_build", '{"id": 7, "status": "completed", "conclusion": "failure"}', id=7)
    assert [call for call, _ in nudges_in([asked] * 3)] == [3]


def test_a_state_that_stays_faulty_after_each_change_is_reported() -> None:
    calls: list[MadeCall] = []
    for name in ("web-5b8c7d6f9-aaaaa", "web-5b8c7d6f9-bq2rt", "web-6c9d8e7a1-kk3lm"):
        calls.append(made("kubectl_get", pods(name), kind="pods", namespace="shop"))
        calls.append(made("kubectl_delete", f'pod "{name}" deleted', kind="pod", name=name))
    ((call, feedback),) = nudges_in(calls)
    assert call == 5
    assert (
        feedback.summary
        == "`kubectl_get pods` has shown the same 3 times since call 1, with something changed before each."
    )


@pytest.mark.parametrize(
    "asked",
    [
        made("read_page", "Orders\nNo invalid rows\nLast error: none", tab=1),
        made("get_health", '{"errors": 0, "error": null, "failed": false}', id=1),
        made("read_page", "Orders: 12 open", tab=1),
    ],
    ids=["words", "record", "page"],
)
def test_a_state_that_is_well_may_stay_as_it_is(asked: MadeCall) -> None:
    assert nudges_in([call for n in range(5) for call in (asked, made("update_row", id=n))]) == []


def test_another_fault_after_each_change_is_progress() -> None:
    calls = [
        call
        for state in ("ImagePullBackOff", "CrashLoopBackOff", "Error", "Running")
        for call in (
            claude_code("kubectl get pods", pods("web-5b8c7d6f9-aaaaa", state)),
            claude_code(f"kubectl apply -f {state}.yaml", "deployment.apps/web configured"),
        )
    ]
    assert nudges_in(calls) == []


def test_a_wheel_that_is_turned_twelve_times_in_a_row_is_reported() -> None:
    scroll = made("scroll_down", "Scrolled down by one page.")
    assert nudges_in([scroll] * 11) == []
    assert [call for call, _ in nudges_in([scroll] * 14)] == [12]
    asked = made("computer", "", action="screenshot")
    assert nudges_in([call for _ in range(14) for call in (scroll, asked)]) == []


def test_an_address_that_does_not_exist_is_not_asked_twice() -> None:
    page = made("webfetch", "StatusCode: non 2xx status code (404 GET https://a.example/b)", url="https://a.example/b")
    ((call, feedback),) = nudges_in([page, page])
    assert call == 2
    assert feedback.suggestions == (FAILING_CALL_STEP,)
    assert feedback.observations[-1].value == "webfetch https://a.example/b"
    asked = claude_code("curl -s -o /dev/null -w '%{http_code}' http://localhost:8080/", "404")
    assert nudges_in([asked, asked]) == []


def test_the_end_of_a_log_that_grows_is_no_repeat() -> None:
    calls = [
        claude_code(f"tail -{length} /tmp/job.log", "\n".join(f"step {n * 9 + i} of the job" for i in range(9)))
        for n, length in enumerate((150, 100, 200, 120, 180))
    ]
    assert nudges_in(calls) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("helm upgrade web ./chart", 'Error: UPGRADE FAILED: another operation is in progress for "web"'),
        ("kubectl apply -f web.yaml", 'error: unable to recognize "web.yaml": no matches for kind "Web"'),
    ],
)
def test_nobody_is_sent_to_read_the_code_of_a_cluster(command: str, said: str) -> None:
    calls = [call for n in range(3) for call in (claude_edit(n, "web.yaml"), claude_code(command, said, 1))]
    assert [each.suggestions for _, each in nudges_in(calls)] == [(SERVICE_STEP,)]


def test_after_a_limit_the_step_is_to_wait() -> None:
    said = "SearchException: https://search.example/html 202 Ratelimit"
    ((_, feedback),) = nudges_in([made("web_search", said, query=f"word {n}") for n in range(3)])
    assert feedback.suggestions == (LIMITED_STEP,)


REFUSED = "app-1 | FATAL: cannot reach db:5432\napp-1 exited with code 1"
INACTIVE = "web.service\n   Active: failed (Result: exit-code)\n   bind() to port 80 failed"


@pytest.mark.parametrize(
    ("change", "asks"),
    [
        ("docker compose up -d", claude_code("docker compose -f dev.yml logs --tail 5 app", REFUSED)),
        ("docker-compose up -d", claude_code("docker-compose logs --tail 5 app", REFUSED)),
        ("kubectl -n prod apply -f web.yml", claude_code("kubectl -n prod get pods", pods("web-1", restarts="3"))),
        ("systemctl restart web", claude_code("systemctl status web --no-pager", INACTIVE, 3)),
        ("service web restart", claude_code("service web status", INACTIVE)),
        ("systemctl restart web", claude_code("journalctl -u web -n 3", INACTIVE)),
    ],
)
def test_to_ask_after_a_container_a_cluster_or_a_unit_changes_nothing(change: str, asks: MadeCall) -> None:
    """G-249: whatever stands before its subcommand; what it shows after each change is compared."""
    calls = [each for n in range(3) for each in (claude_edit(n), claude_code(change, "Done."), asks)]
    assert [call for call, _ in said_by(calls)] == [9]
    assert [call for call, _ in said_by([asks] * 3)] == [3]
