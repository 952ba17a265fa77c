"""A reply is lost, the event is spooled, and much later it is sent again: it is in the stream once, and counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from tellback import Settings, Tellback, connect
from tellback.contracts.codec import encode
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import FactForgotten, FactRemembered
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.intake_lease import FIELD
from tellback.state.keys import Layout, mark_of, stream_of
from tellback.state.lua_text import script_text
from tests.support.link import Link
from tests.support.redis_server import RedisServer
from tests.support.signals import Bench, item
from tests.support.tool_calls import call
from tests.support.waiting import wait_until

ID = EvaluationId("s1", "p", "e1")
MANY = 1_001_000  # ten times what two generations of ids hold


@pytest.fixture
def link(redis_server: RedisServer, _emptied: None) -> Iterator[Link]:
    with Link(redis_server.port) as link:
        yield link


@pytest.fixture
def host(link: Link, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tellback]:
    """A client beyond the link, which tries again when the test asks for it."""
    monkeypatch.setattr("tellback.messaging.publisher.RETRY_SECONDS", 3_600.0)
    with connect(settings=msgspec.structs.replace(settings, redis_url=link.url, publish_delay=60.0)) as tb:
        yield tb


def lose_the_reply(host: Tellback, link: Link) -> None:
    """Have what is buffered appended, and spooled since nobody says so."""
    # Otherwise the lost reply could be the one that says that the script is missing.
    host.context.database.command("SCRIPT", "LOAD", script_text("intake/append_events"))
    link.losing = True
    host.flush()
    link.losing = False
    assert link.lost >= 1
    assert host.context.publisher.spooled


def send_again(host: Tellback) -> None:
    host.flush()
    assert not host.context.publisher.spooled


def calls(database: Database, layout: Layout) -> int:
    return Evaluations(database, layout.of("s1")).counts(ID).calls


def forget_ids(database: Database, *keys: str) -> None:
    """Do what two rotations do: the first ids are in neither generation."""
    assert database.command("DEL", *keys) >= 1


def test_an_event_sent_again_after_its_id_was_forgotten_counts_once(
    host: Tellback, link: Link, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    host.context.publisher.publish(call("t", prompt="p"))
    lose_the_reply(host, link)
    consume()
    assert calls(database, layout) == 1
    forget_ids(database, layout.of("s1").key("seen", "s1", "p", "e1"))
    send_again(host)
    assert database.command("XLEN", stream_of(layout.of("s1"), Family.EVENTS)) == 0
    host.context.publisher.publish(call("t", prompt="p"))
    host.flush()
    consume()
    assert calls(database, layout) == 2


def test_a_signal_sent_again_after_its_id_was_forgotten_counts_once(
    host: Tellback, link: Link, database: Database, layout: Layout, bench: Bench
) -> None:
    host.bank("b").signal([item("f", "a", "helpful")])
    lose_the_reply(host, link)
    bench.consume()
    assert host.bank("b").fact_stats("f").usefulness_score == pytest.approx(0.65)
    forget_ids(database, layout.of("b").key("sigseen", "b"))
    send_again(host)
    bench.consume()
    assert host.bank("b").fact_stats("f").usefulness_score == pytest.approx(0.65, abs=1e-6)


def texts(database: Database, layout: Layout) -> dict[str, str]:
    """The facts that the bank stores: each begins with its time, eight bytes."""
    flat: list[bytes] = database.command("HGETALL", layout.of("b").key("facttext", "b"))
    return {fact.decode(): stored[8:].decode() for fact, stored in zip(flat[::2], flat[1::2], strict=True)}


@pytest.fixture
def settle(tb: Tellback, bench: Bench, database: Database, layout: Layout) -> Callable[[], None]:
    """Applies what is published, so long ago that the ids are forgotten."""

    def apply() -> None:
        tb.flush()
        bench.consume()
        forget_ids(database, layout.of("b").key("factseen", "b"))

    return apply


def test_a_fact_remembered_again_by_its_late_copy_keeps_its_newer_text(
    host: Tellback,
    link: Link,
    tb: Tellback,
    database: Database,
    layout: Layout,
    bench: Bench,
    settle: Callable[[], None],
) -> None:
    host.bank("b").remember("f", "old")
    lose_the_reply(host, link)
    settle()
    tb.bank("b").remember("f", "new")
    settle()
    send_again(host)
    bench.consume()
    assert texts(database, layout) == {"f": "new"}


def test_a_late_copy_of_remember_brings_no_forgotten_fact_back(
    host: Tellback,
    link: Link,
    tb: Tellback,
    database: Database,
    layout: Layout,
    bench: Bench,
    settle: Callable[[], None],
) -> None:
    """The bank had two facts in one case, and no other fact in the other."""
    tb.bank("b").remember("g", "other")
    host.bank("b").remember("f", "x")
    lose_the_reply(host, link)
    settle()
    tb.bank("b").forget("f")
    settle()
    assert texts(database, layout) == {"g": "other"}
    tb.bank("b").forget("g")
    settle()
    send_again(host)
    bench.consume()
    assert texts(database, layout) == {}


def test_a_late_copy_of_forget_removes_no_fact_that_was_remembered_since(
    host: Tellback,
    link: Link,
    tb: Tellback,
    database: Database,
    layout: Layout,
    bench: Bench,
    settle: Callable[[], None],
) -> None:
    tb.bank("b").remember("f", "old")
    settle()
    host.bank("b").forget("f")
    lose_the_reply(host, link)
    settle()
    assert texts(database, layout) == {}
    tb.bank("b").remember("f", "new")
    settle()
    send_again(host)
    bench.consume()
    assert texts(database, layout) == {"f": "new"}


@pytest.mark.parametrize("at_once", [True, False])
def test_facts_that_a_host_appends_twice_by_itself_count_once(
    database: Database, layout: Layout, bench: Bench, *, at_once: bool
) -> None:
    """It has no writer's number: the ids alone decide, in one batch and in several."""
    remember = FactRemembered(event_id=new_event_id(), bank="b", fact_id="f", text="x")
    forget = FactForgotten(event_id=new_event_id(), bank="b", fact_id="f")
    newer = FactRemembered(event_id=new_event_id(), bank="b", fact_id="f", text="new")
    stream, expected = stream_of(layout.of("b"), Family.SIGNALS), list[dict[str, str]]()
    for message, after in (
        *((remember, {"f": "x"}), (remember, {"f": "x"}), (forget, {}), (remember, {}), (forget, {})),
        *((newer, {"f": "new"}), (forget, {"f": "new"}), (remember, {"f": "new"})),
    ):
        database.command("XADD", stream, "*", FIELD, encode(message))
        expected.append(after)
        if not at_once:
            bench.consume()
            assert texts(database, layout) == after
    bench.consume()
    assert texts(database, layout) == expected[-1]


def test_what_another_process_adopts_is_appended_once(
    host: Tellback, link: Link, tb: Tellback, database: Database, layout: Layout, settings: Settings
) -> None:
    """The file names its writer, so the mark is that of the process that is gone."""
    stream = stream_of(layout.of("s1"), Family.EVENTS)
    for number in range(3):
        host.context.publisher.publish(call(f"t{number}", prompt="p"))
    lose_the_reply(host, link)
    writer = host.context.publisher._writer
    host.context.publisher.closed = True  # it dies: nothing is sent at its end
    for lane in host.context.publisher._lanes.values():
        lane.close()
    assert database.command("XLEN", stream) == 3
    tb.context.publisher.publish(call("next", prompt="p"))
    tb.flush()
    tools = [msgspec.json.decode(fields[1])["tool"] for _, fields in database.command("XRANGE", stream, "-", "+")]
    assert tools == ["t0", "t1", "t2", "next"]
    assert database.command("GET", mark_of(stream, writer)) == b"3"
    assert not list(settings.data_path.rglob("*.spool"))


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_an_event_sent_again_after_a_million_others_counts_once(
    host: Tellback, link: Link, tb: Tellback, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    host.context.publisher.publish(call("t", prompt="p"))
    lose_the_reply(host, link)
    for first in range(0, MANY, 50_000):
        for _ in range(first, min(MANY, first + 50_000)):
            tb.context.publisher.publish(call("t", prompt="p"))
        consume()
    assert calls(database, layout) == MANY + 1
    send_again(host)
    consume()
    wait_until(lambda: database.command("XLEN", stream_of(layout.of("s1"), Family.EVENTS)) == 0, "all is applied")
    assert calls(database, layout) == MANY + 1


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_signal_sent_again_after_a_million_others_counts_once(
    host: Tellback, link: Link, tb: Tellback, bench: Bench
) -> None:
    host.bank("b").signal([item("f", "a", "helpful")])
    lose_the_reply(host, link)
    for _ in range(0, MANY, 13_000):
        tb.bank("b").signal(item(f"g{number % 50}", "a") for number in range(13_000))
        tb.flush()
        bench.consume()
    assert host.bank("b").fact_stats("f").usefulness_score == pytest.approx(0.65, abs=1e-4)
    send_again(host)
    bench.consume()
    stats = host.bank("b").fact_stats("f")
    assert stats.usefulness_score == pytest.approx(0.65, abs=1e-4)
    assert stats.signal_count == 1
