"""Addresses, waits and searches: each way to be stuck beside a healthy twin that looks alike."""

from __future__ import annotations

import pytest

from tests.support.dialects import (
    MadeCall,
    Shell,
    claude_code,
    codex_json,
    mini_swe_agent,
    nudges_in,
    openhands,
    swe_agent,
    woven,
)
from tests.support.stretches import claude_edit

SHELLS: list[Shell] = [claude_code, codex_json, mini_swe_agent, openhands, swe_agent]
NOT_FOUND = '{"error": "not found"}\n404'


def spoken(calls: list[MadeCall]) -> list[int]:
    return [call for call, _ in nudges_in(calls)]


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
