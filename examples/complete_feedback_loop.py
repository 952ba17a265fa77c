"""The complete feedback loop: recall, answer, tell what helped, and the next recall of such a question knows.

    tellback up                                  # in another terminal: Redis and workers
    python examples/complete_feedback_loop.py

Run it again, and the loop accumulates.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import tellback

FACTS = {
    "auth-history": "How to implement authentication was argued over for a year, until the old way was dropped.",
    "session-login": "To implement authentication, call sessions.login(user) once verify_password has passed.",
    "pool-size": "The database is reached through a pool of 20 connections for each worker.",
}
QUESTIONS = (
    "How do I implement authentication?",
    "How can I implement authentication?",
    "How do I implement the authentication?",
)


def generate_response(question: str, hits: Sequence[tellback.RecallHit]) -> str:
    """Return what your model would answer; here only one of the recalled facts helps."""
    assert question
    assert hits
    return "To implement it, call sessions.login(user) once verify_password has passed. Nothing more is needed now."


def agent_with_feedback(tb: tellback.Tellback, bank: tellback.Bank, question: str, session: str) -> str:
    """One turn of the loop."""
    # 1. Recall facts, boosted by how useful they were for questions like this one.
    hits = bank.recall(question, boost_by_usefulness=True, usefulness_weight=0.3, limit=2, wait=60)
    if not hits:
        raise SystemExit("no worker has taken the facts: is `tellback up` running?")
    print(f"\n{question}")
    for hit in hits:
        print(f"  recalled {hit.fact_id:14} useful {hit.usefulness:.2f} ({hit.scope})")

    # 2. The agent generates a response using some of them.
    response = generate_response(question, hits)

    # 3. Determine which facts were used and which ignored, each with its confidence.
    signals = tellback.detect_signals(response, {hit.fact_id: hit.text or "" for hit in hits}, query=question)
    for signal in signals:
        print(f"  {signal.signal_type:8} {signal.fact_id:14} confidence {signal.confidence:.2f}, {signal.context}")

    # 4. Submit feedback signals with the query context.
    bank.signal(signals, session=session)
    tb.flush()
    return response


def main() -> None:
    """The same question in other words, three times, then what a user says of the answer."""
    session = f"example-{secrets.token_hex(4)}"
    with tellback.connect() as tb:
        bank = tb.bank("example")
        for fact_id, text in FACTS.items():
            bank.remember(fact_id, text)
        for question in QUESTIONS:
            agent_with_feedback(tb, bank, question, session)
            wait_for(tb, session, question)
        bank.signal(
            [tellback.SignalItem(fact_id="session-login", signal_type="helpful", query=QUESTIONS[0])], session=session
        )
        tb.flush()
        wait_for(tb, session, "helpful")
        print("\nranked first now:", bank.recall(QUESTIONS[0], boost_by_usefulness=True, wait=60)[0].fact_id)


def wait_for(tb: tellback.Tellback, session: str, what: str) -> None:
    """Workers apply signals shortly after; an agent need not wait for them, this page does, to show the effect."""
    deadline = time.monotonic() + 60
    while not any(what in (entry["query"], entry["signal_type"]) for entry in tb.history(session)):
        if time.monotonic() > deadline:
            raise SystemExit("no worker applies signals: is `tellback up` running?")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
