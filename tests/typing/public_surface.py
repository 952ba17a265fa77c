"""The public surface as a user types it; `make lint` holds it to these types, and nothing here is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from threading import Event
from typing import Any, Literal, assert_type

import tellback
from tellback import (
    AnswerCheck,
    Bank,
    CommandRecord,
    DeadlineFeedback,
    FactScore,
    FactStats,
    Feedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    Job,
    Observations,
    OutboxDelivery,
    OutputPiece,
    Prompt,
    RecallHit,
    Tellback,
    Tool,
    ToolEnvelope,
    ToolFeedback,
    Turn,
    Verdict,
    testing,
)
from tellback.transports import (
    PrintTransport,
    TelegramTransport,
    WebhookMessage,
    WebhookTransport,
    serve,
    verify,
)


def commands(tb: Tellback) -> None:
    job = tb.submit(
        ["pytest", "-q"], session="s1", cwd="/srv/app", timeout=60, note="expect two failures",
        host=None, parent=None, inputs=(), env=None, secret_env=(), on_lost="record", priority="normal",
    )  # fmt: skip
    assert_type(job, Job)
    assert_type(job.command_id, str)
    record = job.wait(timeout=90)
    assert_type(record, CommandRecord)
    followed = tb.submit(["make"], session="s1", follow=True)
    assert_type(followed.follow(timeout=90), Iterator[OutputPiece])
    for piece in followed.follow():
        assert_type(piece.stream, Literal["stdout", "stderr"])
        assert_type((piece.command_id, piece.text, piece.dropped, piece.recorded), tuple[str, str, int, bool])
    assert_type(record.exit_code, int | None)
    assert_type(record.may_advance, bool)
    assert_type(tb.records("s1", last=20), list[CommandRecord])
    assert_type(tb.gate("s1", require=[["pytest", "-q"]]), Verdict)
    job.cancel()
    tb.submit(["true"], session="s1", priority="urgent")  # type: ignore[arg-type]  # no such priority


def guidance(tb: Tellback) -> None:
    provider = FeedbackProviderConfig(
        provider=DeadlineFeedback(warning_threshold_seconds=120), trigger=FeedbackTrigger(every_n_calls=5)
    )
    prompt = tb.prompt("s1", "ns:prompt", feedback_providers=(provider,), tools=("wikipedia",), question="who?")
    assert_type(prompt, Prompt)
    assert_type(prompt.evaluation, str)
    prompt.tool_invoked("wikipedia", params={"q": 1}, status="success", result="r", duration_ms=12, call_id="c1")
    prompt.spent(tokens=1_000, cost=0.01)
    prompt.spent(cost=Decimal("0.01"))
    prompt.context_changed("file", "src/app.py", "edited by the user")
    tb.context_changed("s1", "branch", "main", by=prompt)
    assert_type(prompt.feedback(wait=0.0), list[Feedback])
    assert_type(prompt.feedback()[0].render(form="xml"), str)
    prompt.feedback()[0].render(form="html")  # type: ignore[arg-type]  # no such form
    seen = prompt.observe(
        "wikipedia", params={"q": 1}, result="r", error=None, status=None, duration_ms=12, call_id="c1"
    )
    assert_type(seen, ToolFeedback)
    assert_type(seen.to_observation(), str)
    assert_type(seen.envelope, ToolEnvelope | None)
    assert_type(prompt.check_answer("Osaka", todo=["write it down"]), AnswerCheck)
    assert_type(prompt.verification_prompt(), str)
    how = Observations(required_tools=("tests",), suggesters={"wikipedia": _next_steps}, language="de")
    tb.prompt("s1", "p", tools=[Tool("wikipedia"), {"name": "news", "input_schema": {}}], observations=how)
    assert_type(tb.history("s1"), list[dict[str, Any]])


def _next_steps(*, query: str, results: Sequence[Any], original_question: str) -> list[str]:
    return [f"{query} {len(results)} {original_question}"]


def built_in_providers(context: tellback.FeedbackContext) -> None:
    each = FeedbackTrigger(every_n_calls=1, every_n_seconds=30, file_created="plan.md")
    for provider in (
        tellback.RepeatedCallFeedback(levels=(3, 5, 8)),
        tellback.FailureStreakFeedback(),
        tellback.BudgetFeedback(max_tokens=10_000, max_cost=Decimal("0.50"), currency="USD"),
        tellback.ContextChangeFeedback(kinds=("file",)),
    ):
        FeedbackProviderConfig(provider, each)
    assert_type(tellback.recommended_providers(), list[FeedbackProviderConfig])
    assert_type(context.new_changes(), tuple[tellback.ContextChange, ...])
    assert_type(context.cost_spent, Decimal)
    assert_type(testing.run(DeadlineFeedback(), 3, every_n_calls=2, deadline=60), list[testing.Fire])


def turns(tb: Tellback) -> None:
    turn = tb.open_turn(
        channel="telegram", conversation="c1", message_id="m1", text="hi",
        language="en", metadata={}, answer_within=30.0,
    )  # fmt: skip
    assert_type(turn, Turn)
    assert_type(turn.id, str)
    turn.respond(tellback.OutgoingResponse.text_only("hello"))
    turn.fail(code="llm.timeout")
    turn.progress()
    assert_type(turn.defer(seconds=60), float)
    turn.no_reply(reason="asked not to")
    turn.hand_over(to="host-2")
    assert_type(tb.handed_over(), list[Turn])
    assert_type(tb.turn(turn.id), Turn)
    tb.merge_turns([turn, tb.turn("t0-...")], into=tb.turn("t0-..."))
    turn.respond(tellback.OutgoingResponse(text="hello", reply_to=turn.message_id), late_within=600)
    assert_type(tb.outbox("telegram"), Iterator[OutboxDelivery])
    for delivery in tb.outbox("telegram"):
        delivery.settle(tellback.RoutingOutcome(attempted=True, sent_text=True))
    tb.outbox("telegram", wait=1.0, reconcile=asked)
    tb.outbox("telegram", reconcile=len)  # type: ignore[arg-type]  # no such hook
    assert_type(verify(b"", {}, "secret"), WebhookMessage)
    serve(tb, "telegram", TelegramTransport("1:a", speak=str.encode), stop=Event(), reconcile=asked)
    serve(tb, "web", WebhookTransport("https://example.org", "secret", deduplicates=True), stop=Event())
    serve(tb, "web", PrintTransport(), stop=Event())


def asked(delivery: OutboxDelivery) -> tellback.RoutingOutcome | None:
    return tellback.RoutingOutcome(attempted=True) if delivery.attempt > 1 else None


class Signature:
    name = "Signature"
    order = 58.5

    def should_process(self, context: tellback.TurnContext) -> bool:
        return context.outgoing_response is not None and not context.auto

    def process(self, context: tellback.TurnContext) -> None:
        context.outgoing_response = tellback.OutgoingResponse.text_only("…")


def pipeline(turn: Turn) -> None:
    said = tellback.LlmResponse(text="hello", attachments=("a.png",), tool_calls=0, limit="tool_calls")
    turn.finish(llm_response=said, final_answer_ready=True, messages=[{"role": "user", "metadata": {}}])
    turn.finish(llm_error=tellback.LlmError(code="llm.timeout"), system_errors=[tellback.SystemFailure(system="plan")])
    tellback.LlmResponse(limit="speed")  # type: ignore[arg-type]  # no such limit
    ours = tellback.TurnPipeline([Signature()], words=tellback.Words(default="de"), interpret_errors=True)
    context = turn.run(tellback.TurnContext(llm_response=tellback.LlmResponse(text="hi")), pipeline=ours)
    assert_type(context.outgoing_response, tellback.OutgoingResponse | None)
    assert_type(context.routing_outcome, tellback.RoutingOutcome | None)
    assert_type(context.system_errors, list[tellback.SystemFailure])
    assert_type(ours.run(context, lambda _: tellback.RoutingOutcome(attempted=True)), tellback.TurnContext)
    tellback.TurnPipeline([object()])  # type: ignore[list-item]  # no system


def signals(tb: Tellback) -> None:
    bank = tb.bank("my-agent")
    assert_type(bank, Bank)
    assert_type(bank.name, str)
    bank.signal(
        [tellback.SignalItem(fact_id="f1", signal_type="used", query="...", confidence=1.0, context=None)]
    )  # fmt: skip
    shown: list[tuple[int, int]] = []
    assert_type(bank.signal([], session="s1", progress=lambda done, all_: shown.append((done, all_))), int)
    with bank.session("s1") as collected:
        assert_type(collected, tellback.SignalSession)
        collected.used("f1", "f3", query="...")
        collected.ignored("f2", query="...", confidence=0.5, context="seen")
        assert_type(collected.submit(), int)
    bank.remember("f1", "text")
    assert_type(bank.recall("...", limit=10), list[RecallHit])
    bank.forget("f1")
    bank.remember("f1", b"text")  # type: ignore[arg-type]  # a text is a str
    hits = bank.recall(
        "...", candidates=[("f1", 0.80), ("f2", 0.90)],
        boost_by_usefulness=True, usefulness_weight=0.3, min_usefulness=0.0,
    )  # fmt: skip
    assert_type(hits, list[RecallHit])
    assert_type(bank.fact_stats("f1"), FactStats)
    assert_type(bank.stats().most_useful, list[FactScore])
    assert_type(bank.stats().average_score, float)
    assert_type(bank.prune_candidates(max_score=0.3, min_signals=5, against=2.0, limit=100), list[FactScore])
    assert_type(bank.recall("...", {"f1": 0.8}.items()), list[RecallHit])
    facts = {hit.fact_id: "its text" for hit in hits}
    detected = tellback.detect_signals("the response", facts, query="...", files=("a.py",), min_confidence=0.5)
    assert_type(detected, list[tellback.SignalItem])
    assert_type(tellback.weigh_facts("the response", facts.items(), query="..."), list[tellback.FactEvidence])
    tellback.SignalItem(fact_id="f", signal_type="liked", query="q")  # type: ignore[arg-type]  # no such type
