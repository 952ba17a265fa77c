"""The agent host of `tellback demo`: a process that uses only the public API of `tellback`.

A script takes the place of a language model, but each decision depends on what Tellback returned: the recalled facts
choose the edit, and the gate chooses the answer. Each step is printed as a JSON line, which `demo/acts.py` shows and
checks.

The agent repairs a small project, in which two tests fail for two reasons. With two faults the first repair leaves a
test failing, so the demo shows a linked retry that fails and one that succeeds.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import tellback
from tellback import DeadlineFeedback, FeedbackProviderConfig, FeedbackTrigger, OutgoingResponse, SignalItem
from tellback.contracts.signal_types import SignalType

ASKED: Final = "Your shop takes far too much off my price. Can you repair the discount?"

DONE: Final = "Repaired: a discount is a percentage now, and broken cents are rounded down. All tests pass."

QUERY: Final = "How is a discount taken off a price?"

REWORDED: Final = "How do I take a discount off a price?"

FACTS: Final = {
    "old-tenths": "In the old shop a discount is taken off a price in tenths.",
    "percentage": "A discount is a percentage off the price: divide by 100.",
    "round-down": "What is left of a price is rounded down.",
    "shipping": "Shipping is free from 5000 cents on.",
}

FIXES: Final = {
    "percentage": ("price - price * percent // 10", "price - price * percent // 100"),
    "round-down": ("price - price * percent // 100", "price * (100 - percent) // 100"),
}

# The lines of pytest's and unittest's output that say what failed, since either may run the tests.
RESULTS: Final = re.compile(r"(?m)^(?:E\s+)?(AssertionError: .*|\d+ (?:passed|failed).*|FAILED \(.*|OK)$")

TRIGGER: Final = 3  # tool calls for each feedback

DEADLINE: Final = 90.0


def emit(step: str, **what: Any) -> None:
    """Print one step as a JSON line for the process that started this one."""
    sys.stdout.write(json.dumps({"step": step, **what}) + "\n")
    sys.stdout.flush()


def search(query: str) -> list[tuple[str, float]]:
    """Rank the facts by the share of the query's words that they contain, as a host's own search would."""
    words = _words(query)
    found = [(fact, round(len(words & _words(text)) / len(words), 3)) for fact, text in FACTS.items()]
    return sorted(found, key=lambda pair: -pair[1])


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


class DemoAgent:
    """The scripted agent; it works on one user's message, from opening the turn to sending signals."""

    def __init__(self, tb: tellback.Tellback, given: Mapping[str, Any]) -> None:
        self._tb = tb
        self._session: str = given["session"]
        self._project = Path(given["project"])
        self._tests: list[str] = given["tests"]
        self._environ: dict[str, str] = given["environ"]
        self._timeout: float = given["timeout"]
        self._bank = tb.bank(given["bank"])
        self._calls = 0
        self._followed: list[str] = []
        self._passed_over: list[str] = []
        self._turn = tb.open_turn(
            channel=given["channel"],
            conversation="ada",
            message_id="1",
            text=ASKED,
            answer_within=2 * self._timeout,
            session=self._session,
        )
        deadline = FeedbackProviderConfig(DeadlineFeedback(), FeedbackTrigger(every_n_calls=TRIGGER))
        self._prompt = tb.prompt(
            self._session, given["prompt"], feedback_providers=[deadline], deadline=DEADLINE, question=ASKED
        )

    def work(self) -> None:
        """Work on the message: run the tests, recall, edit, answer, and send signals."""
        emit("turn", turn=self._turn.id, state=self._turn.state, text=ASKED, evaluation=self._prompt.evaluation)
        failed = self._run_tests(None, "the user says that discounts are wrong")
        self._check_gate()
        facts = self._recall_facts("recalled", QUERY)
        self._apply_fix(facts)
        failed = self._run_tests(failed, "expect one test more to pass")
        self._apply_fix(facts)
        self._run_tests(failed, "expect every test to pass")
        self._respond(passed=self._check_gate())
        self._send_signals()
        self._recall_facts("recalled again", QUERY)
        self._recall_facts("reworded", REWORDED)
        emit("finished", calls=self._calls, heavy=[name for name in ("celery", "torch") if name in sys.modules])

    def _run_tests(self, parent: str | None, note: str) -> str:
        """Run the tests on a worker and return the record's id, which the next run names as its parent."""
        emit("doing", what="a worker runs the tests")
        job = self._tb.submit(
            self._tests,
            session=self._session,
            cwd=str(self._project),
            timeout=self._timeout,
            note=note,
            parent=parent,
            env=self._environ,
        )
        record = job.wait(timeout=self._timeout)
        self._turn.progress()  # the user still waits: extend the deadline after each long step
        facts = RESULTS.findall(_record_output(record))
        emit(
            "record",
            id=record.command_id,
            parent=record.parent_command_id,
            exit_code=record.exit_code,
            error=record.error,
            worker=record.worker,
            duration_ms=record.duration_ms,
            facts=facts,
            note=record.agent_note,
        )
        self._report_tool_call(
            "tests", {"argv": self._tests}, "success" if record.succeeded else "error", _record_output(record)
        )
        return record.command_id

    def _check_gate(self) -> bool:
        verdict = self._tb.gate(self._session, require=[self._tests])
        emit("gate", passed=verdict.passed, reasons=verdict.reasons)
        return verdict.passed

    def _respond(self, *, passed: bool) -> None:
        """Answer the user, and claim success only if the gate passed."""
        if passed:
            became = self._turn.respond(OutgoingResponse.text_only(DONE))
        else:
            became = self._turn.fail(code="demo.tests_fail")
        emit("answered", became=became, text=DONE)

    def _recall_facts(self, step: str, query: str) -> list[str]:
        """Let a worker rank the results of this host's search; return the ids of the facts, best first."""
        emit("doing", what="a worker recalls; before its first recall it loads the embedding model")
        found = self._bank.recall(query, search(query), boost_by_usefulness=True, wait=min(60.0, self._timeout))
        hits = [
            {"fact": hit.fact_id, "semantic": hit.semantic, "usefulness": hit.usefulness, "score": hit.score}
            | {"scope": hit.scope, "degraded": hit.degraded}
            for hit in found
        ]
        emit(step, query=query, hits=hits)
        facts = [hit.fact_id for hit in found]
        self._report_tool_call("recall", {"query": query}, "success", ", ".join(facts))
        return facts

    def _apply_fix(self, facts: list[str]) -> None:
        """Apply the change of the best recalled fact that still applies to the file."""
        path = self._project / "shop.py"
        text = path.read_text()
        fact = next((fact for fact in facts if fact in FIXES and _source_line(FIXES[fact][0]) in text), None)
        if fact is None:
            emit("failed", error="no recalled fact says what to change")
            sys.exit(1)
        old, new = FIXES[fact]
        path.write_text(text.replace(_source_line(old), _source_line(new)))
        # Facts that ranked higher but led to no change get a "not helpful" signal later.
        self._passed_over += [each for each in facts[: facts.index(fact)] if each not in FIXES]
        self._followed.append(fact)
        emit("edited", file=path.name, fact=fact, text=FACTS[fact], old=old, new=new)
        self._report_tool_call("edit", {"file": path.name, "old": old, "new": new}, "success", "written")

    def _report_tool_call(self, tool: str, params: dict[str, Any], status: str, result: str) -> None:
        """Publish a tool call; if the trigger is due, wait for its feedback."""
        failed = status == "error"
        self._prompt.tool_invoked(
            tool, params=params, status=status, result=None if failed else result, error=result if failed else None
        )
        self._calls += 1
        due = self._calls % TRIGGER == 0
        for feedback in self._prompt.feedback(wait=self._timeout if due else 0.0):
            emit("feedback", call=self._calls, provider=feedback.provider_name, text=feedback.render())

    def _send_signals(self) -> None:
        """Send signals about each recalled fact and wait until a worker has applied them."""
        kinds: dict[str, list[SignalType]] = {fact: ["ignored"] for fact in FACTS}
        kinds |= {fact: ["ignored", "not_helpful"] for fact in self._passed_over}
        kinds |= {fact: ["used", "helpful"] for fact in self._followed}
        items = [
            SignalItem(fact_id=fact, signal_type=kind, query=QUERY) for fact, each in kinds.items() for kind in each
        ]
        sent = self._bank.signal(items, session=self._session)
        self._tb.flush()
        emit("doing", what="a worker applies the signals")
        end = time.monotonic() + self._timeout
        while (applied := self._applied_signals()) < sent and time.monotonic() < end:
            time.sleep(0.05)
        emit("signalled", sent=sent, applied=applied, kinds=kinds)

    def _applied_signals(self) -> int:
        try:
            return self._bank.stats().signal_count
        except tellback.NotFound:  # applying the first signal creates the bank
            return 0


def _source_line(expression: str) -> str:
    return f"return {expression}\n"


def _record_output(record: tellback.CommandRecord) -> str:
    return f"{record.stdout_tail}\n{record.stderr_tail}".strip()


def main() -> None:
    """Run the agent; an error is printed as a step, too, for the demo to show."""
    emit("host", pid=os.getpid())
    try:
        with tellback.connect() as tb:
            DemoAgent(tb, json.loads(sys.argv[1])).work()
    except tellback.TellbackError as error:
        emit("failed", error=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()

SHOP: Final = '''"""Prices of a small shop, in cents."""


def discounted(price: int, percent: int) -> int:
    """The price after a discount."""
    return price - price * percent // 10


def with_shipping(price: int) -> int:
    """The price with 490 cents of shipping, which is free from 5000 cents on."""
    return price if price >= 5000 else price + 490
'''

TESTS: Final = """import unittest

from shop import discounted, with_shipping


class Prices(unittest.TestCase):
    def test_a_tenth_off(self) -> None:
        self.assertEqual(discounted(2000, 10), 1800)

    def test_broken_cents_are_rounded_down(self) -> None:
        self.assertEqual(discounted(999, 15), 849)

    def test_shipping_is_free_from_5000_cents_on(self) -> None:
        self.assertEqual(with_shipping(5000), 5000)
"""

# Plugins installed beside pytest could change the output that the agent reads.
TEST_ENVIRON: Final = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def write_project(folder: Path) -> None:
    """Write the project into a new folder; its pytest.ini keeps pytest from reading a configuration of yours."""
    folder.mkdir(parents=True)
    (folder / "shop.py").write_text(SHOP)
    (folder / "test_shop.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --no-header -p no:cacheprovider\n")


def command_of_tests(python: str) -> list[str]:
    """Return the command that runs the project's tests: pytest if it is installed, otherwise unittest."""
    return [python, "-m", "unittest" if find_spec("pytest") is None else "pytest"]
