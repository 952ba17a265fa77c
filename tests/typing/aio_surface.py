"""`tellback.aio` as a user types it; `make lint` holds it to these types, and nothing here is run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Any, assert_type

from tellback import CommandRecord, FactScore, Feedback, OutgoingResponse, RecallHit, RoutingOutcome, Verdict, aio


async def everything() -> None:
    async with aio.connect("redis://localhost", team="acme") as tb:
        assert_type(tb, aio.Tellback)
        job = await tb.submit(["true"], session="s")
        assert_type(job, aio.Job)
        assert_type(await job.wait(timeout=1), CommandRecord)
        assert_type(await tb.gate("s"), Verdict)
        prompt = await tb.prompt("s", "p")
        assert_type(prompt, aio.Prompt)
        assert_type(prompt.evaluation, str)
        assert_type(await prompt.feedback(wait=0.1), list[Feedback])
        assert_type(await tb.history("s"), list[dict[str, Any]])
        turn = await tb.open_turn(channel="c", conversation="1", message_id="m", text="t")
        assert_type(turn.id, str)
        assert isinstance(turn.state, Awaitable)
        await turn.respond(OutgoingResponse.text_only("hello"))
        assert_type(tb.outbox("c"), AsyncIterator[aio.OutboxDelivery])
        async for delivery in tb.outbox("c", wait=1):
            await delivery.settle(RoutingOutcome(attempted=True))
        bank = await tb.bank("b")
        async with bank.session("s") as collected:
            assert_type(collected, aio.SignalSession)
            await collected.used("f", query="q")
            assert_type(collected.collected, int)
        await bank.remember("f", "text")
        assert_type(await bank.recall("q", [("f", 0.5)]), list[RecallHit])
        assert_type(await bank.recall("q", exploration=0.1), list[RecallHit])
        await bank.forget("f")
        assert_type(await bank.prune_candidates(limit=5), list[FactScore])
        await tb.submit(["true"], session="s", priority="urgent")  # type: ignore[arg-type]  # no such priority
    tb = await aio.connect()
    await tb.close()
