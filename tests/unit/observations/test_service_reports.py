"""Plain texts by which tools of browsers, databases, clusters and agents' frameworks say that they failed."""

from __future__ import annotations

import pytest

from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence import verdict_of
from tellback.guidance.observations.evidence_builder import build_evidence


def verdict(tool: str, said: str, **params: object) -> str:
    return verdict_of(classify(build_evidence(tool, params, said, None), {}).code)


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("page_evaluate", "Script execution failed: x is not iterable"),
        ("page_evaluate", "Page navigation failed: the tab was closed"),
        ("click_element", "Element with index 4 does not exist - retry or use alternative actions"),
        ("click_element", "Element not clickable with index 7 - most likely the page changed"),
        ("tap", "The element is not visible"),
        ("click", "Error clicking element with index 4: Timeout 30000ms exceeded."),
        ("run_query", 'column "total" does not exist'),
        ("run_query", 'column "total" of relation "orders" does not exist'),
        ("run_query", 'relation "ordres" does not exist'),
        ("web_search", "Image search failed after all retries."),
        ("cluster_get", 'Error from server: error when creating "web.yaml": the server refuses it'),
        ("look_up", "Error invoking tool 'look_up' with kwargs {'n': 1} with error:\n n: Input should be a text"),
        ("update_flow", "Diff engine error: Cannot read properties of undefined (reading 'id')"),
        ("delegate", "I tried reusing the same input, I must stop using this action input."),
        ("run_agent", "Agent stopped due to iteration limit or time limit."),
        ("list_things", "Tool call limit reached. Tool call list_things not executed."),
        ("parse", "Invalid or incomplete response"),
        ("open_page", '{"error_type": "EGRESS_BLOCKED", "domain": "a.example", "message": "Access is blocked here."}'),
    ],
)
def test_what_a_service_says_when_it_fails_is_named(tool: str, said: str) -> None:
    assert verdict(tool, said) == "failure"


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("call_aws", "An error occurred (DryRunOperation) when calling StopInstances: Request would have succeeded."),
        ("web_search", "Invalid Format is an album of 1999"),
        ("web_search", "Element does its best on the second record"),
        ("read_page", "Column A does not exist in a vacuum, says the architect"),
        (
            "list_issues",
            "The top issue of the week is 'Cannot read properties of undefined', seen 40 times in checkout",
        ),
        ("run_job", "Success: 76, Failed: 3"),
        ("get_job", '{"id": 3, "error_type": null, "message": "All went well"}'),
        ("get_policy", '{"id": 3, "error_type": "soft", "limit": 4, "window": 60, "name": "retry"}'),
    ],
)
def test_what_only_sounds_like_it_is_no_failure(tool: str, said: str) -> None:
    assert verdict(tool, said) == "success"


def test_a_waiter_that_failed_is_named() -> None:
    said = 'Deleting stack: shop\n\nWaiter StackDeleteComplete failed: we matched expected path: "DELETE_FAILED"'
    assert verdict("Bash", said, command="./destroy.sh") == "failure"


def test_a_cluster_that_refuses_a_file_is_named() -> None:
    said = "Error from server: the server does not allow access to the requested resource"
    assert verdict("kubectl_create", said, file="web.yaml") == "failure"
