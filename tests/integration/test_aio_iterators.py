"""Iterators of `tellback.aio` that wait: the outbox, and the output of a command."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tellback import OutgoingResponse, RoutingOutcome, aio
from tellback.settings import Settings
from tellback.state.outbox import Delivery, Outbox, OutboxQueue
from tests.support.workers import StartWorkers

pytestmark = pytest.mark.usefixtures("database")

SECONDS = 30.0  # far below a lease of the outbox, and far above what anything here takes


async def wait_for_next(items: AsyncIterator[Any]) -> Any:
    return await anext(items, None)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_iterators_that_wait_hold_no_thread(settings: Settings) -> None:
    """Requirement A-480. As many outboxes as threads held up all other calls, and cancelled ones the process's end."""

    async def main() -> str:
        async with aio.connect(settings=settings, threads=2) as tb:
            job = await tb.submit(["true"], session="s")
            outboxes = [tb.outbox(f"c{number}", wait=math.inf) for number in range(8)]
            tasks = [asyncio.create_task(wait_for_next(one)) for one in (*outboxes, job.follow(), job.follow())]
            async with asyncio.timeout(SECONDS):
                turn = await tb.open_turn(channel="c0", conversation="1", message_id="m", text="hi")
                await turn.respond(OutgoingResponse.text_only("hello"))
                delivery = await tasks[0]
                for task in tasks[1:]:
                    await cancelled(task)
            return str(delivery.response.text)

    assert asyncio.run(main()) == "hello"


def test_a_delivery_that_a_cancelled_task_had_claimed_comes_again(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requirement A-481. It waited for the end of a lease that nobody used, by default a minute."""
    claimed, cancelled_by_now, claim = threading.Event(), threading.Event(), Outbox.claim

    def slow_claim(self: Outbox, queue: OutboxQueue, expected: Delivery) -> Delivery | None:
        found = claim(self, queue, expected)
        claimed.set()
        assert cancelled_by_now.wait(SECONDS)
        return found

    monkeypatch.setattr(Outbox, "claim", slow_claim)

    async def main() -> tuple[str | None, int]:
        async with aio.connect(settings=settings) as tb:
            turn = await tb.open_turn(channel="c", conversation="1", message_id="m", text="hi")
            await turn.respond(OutgoingResponse.text_only("hello"))
            task = asyncio.create_task(wait_for_next(tb.outbox("c")))
            assert await asyncio.to_thread(claimed.wait, SECONDS)
            await cancelled(task)
            cancelled_by_now.set()
            async for delivery in tb.outbox("c", wait=SECONDS):
                await delivery.settle(RoutingOutcome(attempted=True, sent_text=True))
                return delivery.response.text, delivery.attempt
        raise AssertionError("it did not come again")

    assert asyncio.run(main()) == ("hello", 1)


def test_output_is_followed_until_the_record(
    settings: Settings,
    start_workers: StartWorkers,
) -> None:
    start_workers()

    async def main() -> list[str]:
        async with aio.connect(settings=settings) as tb:
            job = await tb.submit(["sh", "-c", "echo one; echo two >&2"], session="s", follow=True)
            return sorted([piece.text async for piece in job.follow(timeout=SECONDS)])

    assert asyncio.run(main()) == ["one\n", "two\n"]
