"""`tellback.aio`: the client's surface for asyncio, which never holds the event loop up."""

from __future__ import annotations

import ast
import asyncio
import inspect
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

import tellback
from tellback import FeedbackProviderConfig, FeedbackTrigger, OutgoingResponse, RoutingOutcome, StaticFeedback, aio
from tellback.aio import proxy, stubs
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.team import open_layout
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

T = TypeVar("T")


@asynccontextmanager
async def ticking() -> AsyncGenerator[list[int]]:
    """Count the rounds of the loop: a call that blocks it stops the count."""
    ticks = [0]

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            ticks[0] += 1

    task = asyncio.create_task(tick())
    try:
        yield ticks
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def together(calls: Sequence[Awaitable[T]]) -> tuple[list[T], int]:
    """Return the results of calls that all wait, and how many of them had begun when the first ended."""
    begun, first = 0, 0

    async def one(call: Awaitable[T]) -> T:
        nonlocal begun, first
        begun += 1
        try:
            return await call
        finally:
            first = first or begun

    return list(await asyncio.gather(*map(one, calls))), first


def run(scene: Callable[[aio.Tellback], Awaitable[T]], settings: Settings, **options: Any) -> T:
    async def main() -> T:
        async with aio.connect(settings=settings, **options) as tb:
            return await scene(tb)

    return asyncio.run(main())


def test_the_stub_is_what_the_clients_classes_say() -> None:
    """Refresh with `make generate`."""
    written = Path(inspect.getfile(aio)).with_suffix(".pyi").read_text("utf-8")
    assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(stubs.render_stub()))


def test_each_member_that_is_treated_apart_exists() -> None:
    """One that had been renamed was left out no more, so that a host could add dead letters."""
    tables = proxy.AWAITED_PROPERTIES, proxy.NONBLOCKING, proxy.PUBLISHING, proxy.WAITING, proxy.REPLACED
    named = proxy.OMITTED.union(*tables)
    assert [f"{cls.__name__}.{name}" for cls, name in named if name not in vars(cls)] == []


def test_each_public_method_of_the_client_has_its_counterpart() -> None:
    for cls in proxy.WRAPPED_CLASSES:
        public = {name for name in vars(cls) if name[0] != "_" and (cls, name) not in proxy.OMITTED}
        made = proxy.CLASSES[cls]
        assert {name for name in vars(made) if name[0] != "_"} >= public
        for name in public:
            if inspect.isfunction(vars(cls)[name]):
                function = getattr(made, name)
                awaited = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
                assert awaited is not ((cls, name) in proxy.NONBLOCKING)


def test_what_a_method_of_the_client_returns_is_wrapped_or_plain() -> None:
    """An object that still talks to Redis would block the loop: those of the client are the wrapped ones."""
    for cls in proxy.WRAPPED_CLASSES:
        for name, member in vars(cls).items():
            if inspect.isfunction(member) and name[0] != "_":
                returned = str(inspect.signature(member).return_annotation)
                for named in ("Tellback", "Prompt", "Job", "Turn", "Bank", "OutboxDelivery", "DeadLetters"):
                    assert returned != named or named in {wrapped.__name__ for wrapped in proxy.WRAPPED_CLASSES}


@pytest.mark.usefixtures("database")
def test_guidance(settings: Settings, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")

    async def scene(tb: aio.Tellback) -> tuple[list[str], int]:
        reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=1))
        prompt = await tb.prompt("s1", "p", feedback_providers=[reminder])
        await prompt.tool_invoked("search", params={"q": "x"})
        given = await prompt.feedback(wait=20)
        assert prompt.session == "s1"
        return [feedback.summary for feedback in given], len(await tb.history("s1"))

    assert run(scene, settings) == (["Mind the goal."], 2)


@pytest.mark.usefixtures("database")
def test_turns_and_the_outbox(settings: Settings) -> None:
    async def scene(tb: aio.Tellback) -> tuple[str, list[str | None], str]:
        turn = await tb.open_turn(channel="c", conversation="1", message_id="m", text="hi")
        before = await turn.state
        await turn.respond(OutgoingResponse.text_only("hello"))
        sent: list[str | None] = []
        async for delivery in tb.outbox("c"):
            sent.append(delivery.response.text)
            await delivery.settle(RoutingOutcome(attempted=True, sent_text=True))
        return before, sent, await turn.state

    assert run(scene, settings) == ("open", ["hello"], "responded")


@pytest.mark.usefixtures("database")
def test_the_outbox_reconciles(settings: Settings) -> None:
    """The hook is an ordinary function: it runs in a thread, and the delivery that it is given is not awaited."""
    here = threading.get_ident()
    asked: list[tuple[str | None, bool]] = []

    def ask(delivery: tellback.OutboxDelivery) -> RoutingOutcome:
        asked.append((delivery.response.text, threading.get_ident() == here))
        return RoutingOutcome(attempted=True, sent_text=True)

    async def scene(tb: aio.Tellback) -> list[str]:
        turn = await tb.open_turn(channel="c", conversation="1", message_id="m", text="hi")
        await turn.respond(OutgoingResponse.text_only("hello"))
        async for delivery in tb.outbox("c"):
            await delivery.settle(RoutingOutcome(attempted=True, ambiguous=True))
        async for _ in tb.outbox("c", wait=2.0, reconcile=ask):
            raise AssertionError("what the platform has is not sent again")
        return [entry["event"] for entry in await tb.history("1")]

    assert run(scene, settings) == ["opened", "answered", "ambiguous", "delivered"]
    assert asked == [("hello", False)]


@pytest.mark.usefixtures("database")
def test_turns_that_change_hands(settings: Settings) -> None:
    async def scene(tb: aio.Tellback) -> tuple[str, str, list[str], str]:
        one, two = [await tb.open_turn(channel="c", conversation="1", message_id=m, text="hi") for m in ("a", "b")]
        await tb.merge_turns((turn for turn in (one,)), into=two)  # any iterable: only lists and tuples were taken
        await two.hand_over(to="host-2")
        (mine,) = await tb.handed_over(to="host-2")
        await mine.defer(seconds=5)
        answered = await mine.respond(OutgoingResponse.text_only("hello"))
        return await one.state, answered, [mine.id, two.id], (await tb.turn(one.id)).message_id

    state, answered, ids, message = run(scene, settings)
    assert (state, answered, message) == ("merged", "accepted", "a")
    assert ids[0] == ids[1]


@pytest.mark.usefixtures("database")
def test_errors_are_those_of_the_client(settings: Settings) -> None:
    async def scene(tb: aio.Tellback) -> None:
        with pytest.raises(tellback.InvalidInput, match="session"):
            await tb.prompt("", "p")
        prompt = await tb.prompt("s", "p")
        with pytest.raises(tellback.InvalidInput, match="wait"):
            await prompt.feedback(wait=-1)
        with pytest.raises(tellback.NotFound):
            await (await tb.bank("b")).fact_stats("f")
        job = await tb.submit(["true"], session="s")
        with pytest.raises(tellback.Timeout, match=r"after 0\.05 s"):
            await job.wait(timeout=0.05)
        await tb.context_changed("s", "file", "a.py", by=prompt)

    run(scene, settings)
    with pytest.raises(tellback.InvalidInput, match="threads"):
        aio.connect(threads=0)


@pytest.mark.usefixtures("database")
def test_a_thousand_tasks_that_wait_hold_up_neither_the_loop_nor_each_other(
    settings: Settings,
) -> None:
    async def scene(tb: aio.Tellback) -> tuple[float, int, set[int]]:
        prompt = await tb.prompt("s", "p")
        start = time.monotonic()
        given, begun = await together([prompt.feedback(wait=1.0) for _ in range(1_000)])
        return time.monotonic() - start, begun, {len(one) for one in given}

    seconds, begun, sizes = run(scene, settings, threads=8)
    assert (sizes, begun) == ({0}, 1_000)
    assert seconds < 120, "a second each, one after the other on eight threads, they would take longer"


def test_a_thousand_calls_are_all_counted(database: Database, settings: Settings, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")

    async def scene(tb: aio.Tellback) -> str:
        prompt = await tb.prompt("s", "p")
        await asyncio.gather(*(prompt.tool_invoked("t", call_id=str(n)) for n in range(1_000)))
        await tb.flush()
        return prompt.evaluation

    evaluation = run(scene, settings)
    layout = open_layout(database, settings.team, settings.shards)
    store, id_ = Evaluations(database, layout.of("s")), EvaluationId("s", "p", evaluation)
    wait_until(lambda: store.counts(id_).calls == 1_000, "every call is counted")


@pytest.mark.faults
def test_the_loop_goes_on_while_redis_is_stopped(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"), feedback_deadline=0.5)

        async def scene(tb: aio.Tellback) -> None:
            prompt = await tb.prompt("s", "p")
            server.suspend()
            try:
                async with ticking() as ticks:
                    given, begun = await together([prompt.feedback(wait=0.5) for _ in range(20)])
                    assert (given, begun) == ([[]] * 20, 20)
                    for _ in range(20):
                        await prompt.tool_invoked("t")
                    before = ticks[0]
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(tb.history("s"), 0.5)
                    assert ticks[0] > before + 1, "while one waited, the loop came round"
            finally:
                server.resume()

        run(scene, settings)


@pytest.mark.usefixtures("database")
def test_calls_that_wait_for_redis_hold_up_neither_a_tool_call_nor_feedback(
    settings: Settings,
) -> None:
    """Every thread is in a call that gets no answer; a tool call is reported, and `feedback` gives up."""
    released = threading.Event()

    def stuck_call(_session: str) -> None:
        released.wait(60)

    async def scene(tb: aio.Tellback) -> tuple[list[Any], list[Any], str]:
        prompt = await tb.prompt("s", "p")
        client: Any = tb
        client._target.history = stuck_call
        stuck = [asyncio.ensure_future(tb.history("s")) for _ in range(4)]
        try:
            await prompt.tool_invoked("t")
            given = await prompt.feedback(wait=0.01), await prompt.feedback()
            assert not any(task.done() for task in stuck)
            return *given, (await prompt.observe("t", result="found")).status
        finally:
            released.set()
            await asyncio.gather(*stuck)

    assert run(scene, settings, threads=2) == ([], [], "success")


@pytest.mark.faults
def test_connecting_to_a_stopped_redis_holds_nobody_up(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        server.suspend()

        async def main() -> int:
            async with ticking() as ticks:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5), aio.connect(settings=settings):
                        pass
            return ticks[0]

        try:
            assert asyncio.run(main()) > 1, "while it was waited for, the loop came round"
        finally:
            server.resume()


@pytest.mark.parametrize("wait", [0.0, 5.0])
def test_what_a_cancelled_call_had_taken_comes_with_the_next_one(
    wait: float, database: Database, settings: Settings
) -> None:
    """A subagent's prompt is another object each time: what a call of one had taken was lost for the others."""

    async def scene(tb: aio.Tellback) -> list[str]:
        main = await tb.prompt("s", "p", evaluation="e")
        prompt = await main.for_agent("a")
        client: Any = prompt
        take, release = client._target.feedback, threading.Event()
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def slow(wait: float = 0.0) -> Any:
            loop.call_soon_threadsafe(begun.set)
            release.wait(60)
            return take(wait)

        client._target.feedback = slow
        key = client._target._context.layout.of("s").key("mailbox", "s", "p", prompt.evaluation)
        database.command("RPUSH", key, b'{"provider_name":"X","summary":"kept"}')
        task = asyncio.create_task(prompt.feedback(wait=5))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        client._target.feedback = take
        await asyncio.to_thread(wait_until, lambda: client._kept, "the cancelled call took it and kept it")
        database.command("RPUSH", key, b'{"provider_name":"X","summary":"new"}')
        given = [feedback for _ in range(2) for feedback in await (await main.for_agent("a")).feedback(wait=wait)]
        return [feedback.summary for feedback in given]

    assert run(scene, settings) == ["kept", "new"]


@pytest.mark.usefixtures("database")
def test_a_closed_connection_says_so_and_can_be_awaited(settings: Settings) -> None:
    async def main() -> None:
        tb = await aio.connect(settings=settings)
        await tb.close()
        with pytest.raises(tellback.StateConflict, match="closed"):
            await tb.history("s")
        await tb.close()

    asyncio.run(main())
