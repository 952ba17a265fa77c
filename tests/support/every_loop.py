"""Every loop once, as a user plays them: guidance, commands, turns, signals and recall."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from tellback import (
    DeadlineFeedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    OutgoingResponse,
    SignalItem,
    Tellback,
    Timeout,
    ToolUsageMonitor,
    connect,
)
from tests.support.turns import opened, sent, state
from tests.support.waiting import wait_until


def play_every_loop(tb: Tellback, folder: Path) -> None:
    """Play them against workers that are running; commands run in `folder`."""
    _guidance(tb)
    _commands(tb, folder)
    _turns(tb)
    _signals(tb)


def _guidance(tb: Tellback) -> None:
    every = FeedbackProviderConfig(ToolUsageMonitor(), FeedbackTrigger(every_n_calls=1))
    late = FeedbackProviderConfig(DeadlineFeedback(), FeedbackTrigger(every_n_seconds=1))
    prompt = tb.prompt("s1", "p", feedback_providers=[every, late], deadline=60.0, tools=["t"], delivery="all")
    prompt.tool_invoked("t", params={"q": "x"}, result="r")
    prompt.observe("t", params={"q": "y"}, error="429 Too Many Requests")
    wait_until(lambda: prompt.feedback(wait=0.1), "feedback comes")
    tb.context_changed("s1", "file", "a.py", by=prompt)
    prompt.spent(tokens=10)
    wait_until(lambda: len(tb.history("s1")) > 2, "the history has them")


def _commands(tb: Tellback, folder: Path) -> None:
    done = tb.submit(["sh", "-c", "echo hi; exit 3"], session="s2", cwd=folder, follow=True)
    assert "".join(piece.text for piece in done.follow(timeout=60)) == "hi\n"
    failed = done.wait(timeout=60)
    assert failed.exit_code == 3
    tb.waive("s2", failed.command_id, reason="a test")
    running = tb.submit(["sleep", "30"], session="s2", cwd=folder, timeout=40)
    wait_until(running.cancel, "it is cancelled")
    running.wait(timeout=60)
    again = tb.submit(["true"], session="s2", cwd=folder, parent=failed.command_id)
    assert again.wait(timeout=60).exit_code == 0
    assert len(tb.records("s2")) == 3
    tb.gate("s2", require=[["true"]])


def _turns(tb: Tellback) -> None:
    answered, other, late = opened(tb), opened(tb), opened(tb, answer_within=1.0, conversation="c2")
    answered.progress()
    answered.hand_over(to="elsewhere")
    assert tb.handed_over(to="elsewhere")
    answered.defer(seconds=30)
    tb.merge_turns([other], into=answered)
    answered.respond(OutgoingResponse.text_only("hello"))
    opened(tb).no_reply(reason="none")
    opened(tb, conversation="c3").fail(code="llm.timeout")
    wait_until(lambda: state(late) == "fallback", "the sweep answers")
    assert {text for _, _, text in sent(tb)} >= {"hello"}


def _signals(tb: Tellback) -> None:
    bank = tb.bank("b")
    bank.remember("f1", "Ruby was written by Matz")
    bank.remember("f2", "Python was written by Guido")
    bank.signal([SignalItem(fact_id="f1", signal_type="helpful", query="Who wrote Ruby?")], session="s3")
    tb.flush()

    def found() -> bool:
        with suppress(Timeout):  # a busy machine loads the model for longer than one call waits
            return bool(bank.recall("Who wrote Ruby?", wait=30))
        return False

    wait_until(found, "a stored fact is found", timeout=120)
    hits = bank.recall("Who wrote Ruby?", [("f1", 0.5), ("f2", 0.4)], boost_by_usefulness=True, wait=30)
    assert hits[0].fact_id == "f1"
    assert not hits[0].degraded
    assert bank.fact_stats("f1").usefulness_score > 0.5
    with connect(settings=msgspec.structs.replace(tb.context.settings, recall_in_process=True)) as here:
        assert here.bank("b").recall("Who wrote Ruby?")[0].fact_id == "f1", "found in this process, by vector sets"
    bank.stats()
    bank.prune_candidates()
    bank.forget("f2")
    tb.flush()
