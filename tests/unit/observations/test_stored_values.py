"""The outcome of a program that shows an error which it stores, or one that its command names."""

from __future__ import annotations

import pytest

from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence import Finding, verdict_of
from tellback.guidance.observations.evidence_builder import build_evidence


def judged(command: str, text: str) -> Finding:
    return classify(build_evidence("Bash", {"command": command}, text, None), {})


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("kubectl get deploy cart -o jsonpath='{.status.conditions[0].message}'", 'Error: container "cart" is waiting'),
        ("kubectl -n a get pod b --output=go-template='{{.x}}' | tail -40", "panic: open /a.yaml: permission denied"),
        ("ssh ops@web1 consul kv get cart/last_error", "Error: cart not found"),
        ("vault read -field=note secret/ops", "permission denied"),
        ("terraform output -raw last_error", "Error: quota exceeded for instance cart-1"),
        ("pulumi stack output lastError", "error: update failed"),
        (
            "docker inspect -f '{{.State.Error}}' cart",
            "failed to create task: cart: executable file not found in $PATH",
        ),
        ("xmllint --xpath 'string(//failure/@message)' junit.xml", "AssertionError: expected 3 to be 4"),
        ("aws cloudformation describe-stacks --query 'Stacks[0].Reason' --output text", "The table failed to create."),
        ("psql shop -Atc 'select last_error from job where id = 7'", 'ERROR: relation "carts" does not exist'),
        ("kcat -b localhost:9092 -C -t errors -e -q -c 2", 'Error: cart not found\n{"msg": "permission denied"}'),
        ("tmux capture-pane -pt build", "$ ./deploy\nbash: ./deploy: Permission denied"),
    ],
)
def test_a_stored_value_may_be_the_text_of_an_error(command: str, value: str) -> None:
    """Requirement G-367."""
    assert verdict_of(judged(command, value).code) == "success"


@pytest.mark.parametrize(
    ("command", "text", "name"),
    [
        ("kubectl get po b -o jsonpath='{.x}'", 'Error from server (NotFound): pods "b" not found', "pods"),
        ("kubectl get po b -o jsonpath='{.x'", "error: error parsing jsonpath {.x, unclosed action", "unclosed"),
        ("consul kv get cart/limit", "Error! No key exists at: cart/limit", "No key exists"),
        ("vault kv get -field=a secret/b", "No value found at secret/data/b", "No value found"),
        (
            "terraform output -raw x",
            '\u2577\n\u2502 Error: Output "x" not found\n\u2502 \n\u2575',
            'Error: Output "x" not found',
        ),
        ("pulumi stack output x", "error: no stack selected", "no stack selected"),
        ("consul kv get a", "bash: line 1: consul: command not found", "command not found"),
        ("consul kv get a | jq .b", "jq: parse error: Invalid numeric literal at line 1, column 5", "parse error"),
        ("aws s3api list-buckets --query a --output text", "Unable to locate credentials.", "credentials"),
        ("psql shop -At -c 'select 1' -c 'select x'", '1\nFEHLER:  Spalte "x" existiert nicht', "FEHLER"),
        ("kcat -b a:9092 -C -t carts", "% ERROR: Topic carts error: Broker: Unknown topic", "Unknown topic"),
        ("tmux capture-pane -pt build", "can't find session: build", "can't find session"),
        ("kubectl exec a -- ls", "error: unable to upgrade connection: pod does not exist", "unable to upgrade"),
    ],
)
def test_what_a_program_says_in_place_of_a_value_is_a_failure(command: str, text: str, name: str) -> None:
    """Requirement G-367."""
    found = judged(command, text)
    assert (verdict_of(found.code), name in found.message) == ("failure", True), found


@pytest.mark.parametrize(
    ("command", "text", "name"),
    [
        ("pytest -q -k '1 failed'", "F    [100%]\n1 failed in 0.02s", "1 failed"),
        ("echo '1 failed' && pytest -q", "1 failed\n.F   [100%]\n1 failed, 1 passed in 0.02s", "1 passed"),
        ("redis-cli set a 'ERR wrong number'", "(error) ERR wrong number of arguments for 'set' command", "ERR wrong"),
        ("redis-cli set a 'MISCONF Redis'", "MISCONF Redis is configured to save RDB snapshots", "RDB snapshots"),
    ],
)
def test_a_summary_or_refusal_that_repeats_words_of_the_command_is_a_failure(
    command: str, text: str, name: str
) -> None:
    """Requirement G-368."""
    found = judged(command, text)
    assert (verdict_of(found.code), name in found.message) == ("failure", True), found


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("linear issue create '1 failed in 2s'", "1 failed in 2s\nhttps://linear.app/acme/issue/SHOP-12"),
        ("redis-cli set note 'ERR unknown command'", "OK"),
    ],
)
def test_a_line_that_was_given_whole_is_none(command: str, text: str) -> None:
    """Requirement G-368."""
    assert verdict_of(judged(command, text).code) == "success"
