"""Redaction in a process with threads."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest

from tellback.redaction import rules
from tellback.redaction.compiled_scans import CompiledScan
from tellback.redaction.rules import Scan


def test_a_scan_waits_for_no_other_that_a_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is forked meanwhile has no such thread, and would wait for ever."""
    begun, go_on, compiled = Event(), Event(), CompiledScan

    def compile_slowly(begin: str, *rest: Any) -> Any:
        if begin == "slow":
            begun.set()
            go_on.wait()
        return compiled(begin, *rest)

    monkeypatch.setattr(rules, "CompiledScan", compile_slowly)
    slow = Thread(target=Scan("slow", [("a", "b", "")]).may_match, args=("slowb",), daemon=True)
    other = Thread(target=Scan("other", [("a", "b", "")]).may_match, args=("otherb",), daemon=True)
    slow.start()
    assert begun.wait(10)
    other.start()
    other.join(5)
    waits = other.is_alive()
    go_on.set()
    slow.join()
    assert not waits
