"""The agent host of `tellback demo`: a process that knows `import tellback` and nothing else of the system.

Its decisions are scripted, for want of a language model; what it decides on is what came back. It tells each step as a
JSON line on standard output, which `repair.py` shows and checks.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import tellback
from tellback import DeadlineFeedback, FeedbackProviderConfig, FeedbackTrigger, OutgoingResponse, SignalItem

Kind = Literal["used", "ignored", "helpful", "not_helpful"]

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
RESULTS: Final = re.compile(r"(?m)^(?:E\s+)?(AssertionError: .*|\d+ (?:passed|failed).*|FAILED \(.*|OK)$")
TRIGGER: Final = 3  # tool calls between two pieces of feedback
DEADLINE: Final = 90.0


def tell(step: str, **what: Any) -> None:
    """One line for whoever started this process."""
    sys.stdout.write(json.dumps({"step": step, **what}) + "\n")
    sys.stdout.flush()


def search(query: str) -> list[tuple[str, float]]:
    """This host's own search: the share of the query's words that a fact has."""
    words = _words(query)
    found = [(fact, round(len(words & _words(text)) / len(words), 3)) for fact, text in FACTS.items()]
    return sorted(found, key=lambda pair: -pair[1])


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


class Agent:
    """Works on one user's message, from opening its turn to answering it."""

    def __init__(self, tb: tellback.Tellback, given: Mapping[str, Any]) -> None:
        """Take the client, and what the demo has given: project, tests, environ, session, bank, patience."""
        self._tb = tb
        self._session: str = given["session"]
        self._project = Path(given["project"])
        self._tests: list[str] = given["tests"]
        self._environ: dict[str, str] = given["environ"]
        self._patience: float = given["patience"]
        self._bank = tb.bank(given["bank"])
        self._calls = 0
        self._followed: list[str] = []
        self._passed_over: list[str] = []
        self._turn = tb.open_turn(
            channel=given["channel"],
            conversation="ada",
            message_id="1",
            text=ASKED,
            answer_within=2 * self._patience,
            session=self._session,
        )
        deadline = FeedbackProviderConfig(DeadlineFeedback(), FeedbackTrigger(every_n_calls=TRIGGER))
        self._prompt = tb.prompt(
            self._session, given["prompt"], feedback_providers=[deadline], deadline=DEADLINE, question=ASKED
        )

    def work(self) -> None:
        """The story of one message."""
        tell("turn", turn=self._turn.id, state=self._turn.state, text=ASKED, evaluation=self._prompt.evaluation)
        failed = self._test(None, "the user says that discounts are wrong")
        self._gate()
        facts = self._recall("recalled", QUERY)
        self._fix(facts)
        failed = self._test(failed, "expect one test more to pass")
        self._fix(facts)
        self._test(failed, "expect every test to pass")
        self._answer(passed=self._gate())
        self._signal()
        self._recall("recalled again", QUERY)
        self._recall("reworded", REWORDED)
        tell("finished", calls=self._calls, heavy=[name for name in ("celery", "torch") if name in sys.modules])

    def _test(self, parent: str | None, note: str) -> str:
        """Have a worker run the tests; the id of the record, for a retry to name as its parent."""
        tell("doing", what="a worker runs the tests")
        job = self._tb.submit(
            self._tests,
            session=self._session,
            cwd=str(self._project),
            timeout=self._patience,
            note=note,
            parent=parent,
            env=self._environ,
        )
        record = job.wait(timeout=self._patience)
        self._turn.progress()
        facts = RESULTS.findall(_output(record))
        tell(
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
        self._used("tests", {"argv": self._tests}, "success" if record.succeeded else "error", _output(record))
        return record.command_id

    def _gate(self) -> bool:
        verdict = self._tb.gate(self._session, require=[self._tests])
        tell("gate", passed=verdict.passed, reasons=verdict.reasons)
        return verdict.passed

    def _answer(self, *, passed: bool) -> None:
        """Claim no more than the gate allows."""
        if passed:
            became = self._turn.respond(OutgoingResponse.text_only(DONE))
        else:
            became = self._turn.fail(code="demo.tests_fail")
        tell("answered", became=became, text=DONE)

    def _recall(self, step: str, query: str) -> list[str]:
        """Have a worker rank what the own search has found; the facts' ids, best first."""
        tell("doing", what="a worker recalls; before its first recall it loads the embedding model")
        found = self._bank.recall(query, search(query), boost_by_usefulness=True, wait=min(60.0, self._patience))
        hits = [
            {"fact": hit.fact_id, "semantic": hit.semantic, "usefulness": hit.usefulness, "score": hit.score}
            | {"scope": hit.scope, "degraded": hit.degraded}
            for hit in found
        ]
        tell(step, query=query, hits=hits)
        facts = [hit.fact_id for hit in found]
        self._used("recall", {"query": query}, "success", ", ".join(facts))
        return facts

    def _fix(self, facts: list[str]) -> None:
        """Do to the file what the best recalled fact says that it does not do yet."""
        path = self._project / "shop.py"
        text = path.read_text()
        fact = next((fact for fact in facts if fact in FIXES and _line(FIXES[fact][0]) in text), None)
        if fact is None:
            tell("failed", error="no recalled fact says what to change")
            sys.exit(1)
        old, new = FIXES[fact]
        path.write_text(text.replace(_line(old), _line(new)))
        self._passed_over += [each for each in facts[: facts.index(fact)] if each not in FIXES]
        self._followed.append(fact)
        tell("edited", file=path.name, fact=fact, text=FACTS[fact], old=old, new=new)
        self._used("edit", {"file": path.name, "old": old, "new": new}, "success", "written")

    def _used(self, tool: str, params: dict[str, Any], status: str, result: str) -> None:
        """Tell of a tool call; where the trigger is due, wait for the feedback that it has earned."""
        failed = status == "error"
        self._prompt.tool_invoked(
            tool, params=params, status=status, result=None if failed else result, error=result if failed else None
        )
        self._calls += 1
        due = self._calls % TRIGGER == 0
        for feedback in self._prompt.feedback(wait=self._patience if due else 0.0):
            tell("feedback", call=self._calls, provider=feedback.provider_name, text=feedback.render())

    def _signal(self) -> None:
        """Say what each recalled fact was worth, and wait until a worker has applied it."""
        kinds: dict[str, list[Kind]] = {fact: ["ignored"] for fact in FACTS}
        kinds |= {fact: ["ignored", "not_helpful"] for fact in self._passed_over}
        kinds |= {fact: ["used", "helpful"] for fact in self._followed}
        items = [
            SignalItem(fact_id=fact, signal_type=kind, query=QUERY) for fact, each in kinds.items() for kind in each
        ]
        sent = self._bank.signal(items, session=self._session)
        self._tb.flush()
        tell("doing", what="a worker applies the signals")
        end = time.monotonic() + self._patience
        while (applied := self._applied()) < sent and time.monotonic() < end:
            time.sleep(0.05)
        tell("signalled", sent=sent, applied=applied, kinds=kinds)

    def _applied(self) -> int:
        try:
            return self._bank.stats().signal_count
        except tellback.NotFound:  # a bank begins with the first signal that is applied
            return 0


def _line(expression: str) -> str:
    return f"return {expression}\n"


def _output(record: tellback.CommandRecord) -> str:
    return f"{record.stdout_tail}\n{record.stderr_tail}".strip()


def main() -> None:
    """Work on the message; a failure is told like any other step."""
    tell("host", pid=os.getpid())
    try:
        with tellback.connect() as tb:
            Agent(tb, json.loads(sys.argv[1])).work()
    except tellback.TellbackError as error:
        tell("failed", error=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
