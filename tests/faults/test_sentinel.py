"""State and broker behind Sentinel: who was there before a failover continues after it, with the same URL."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest
from celery import Celery

from tellback import Settings, connect
from tellback.broker import broker_config
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import ConfigurationError, Unavailable
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tests.support.hooks import run_hook, tool_event, troubles
from tests.support.redis_server import RedisServer
from tests.support.sentinels import NAME, Sentinels
from tests.support.waiting import answers, wait_until
from tests.support.workers import Workers

pytestmark = pytest.mark.faults

KEY = "tb:{default.0}:team"


@pytest.mark.slow
def test_clients_hooks_and_workers_follow_a_failover_of_state_and_broker(sentinels: Sentinels, tmp_path: Path) -> None:
    settings = Settings(redis_url=sentinels.url, data_dir=str(tmp_path / "data"))
    workers = Workers(settings, tmp_path)
    try:
        workers.start()
        with (
            connect(settings=settings) as tb,
            closing(Database(sentinels.url, call_deadline=5.0)) as bounded,
        ):
            shard, evaluation = tb.context.layout.of("s"), EvaluationId("s", "p", "e")

            def publish_and_apply(calls: int) -> None:
                for _ in range(3):
                    event = ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
                    tb.context.publisher.publish(event)
                tb.flush()
                store = Evaluations(tb.context.database, shard)
                wait_until(
                    lambda: answers(tb.context.database) and store.counts(evaluation).calls == calls,
                    f"applied, see {workers.logs[0]}",
                )

            publish_and_apply(3)
            assert bounded.command("HGET", KEY, "shards") == b"4"
            sentinels.fail_over()
            wait_until(lambda: answers(tb.context.database) and answers(bounded), "clients follow")
            publish_and_apply(6)
            turn = tb.open_turn(channel="web", conversation="c", message_id="m", text="?")
            assert turn.respond(OutgoingResponse.text_only("yes"))
            assert sentinels.new.command("HGET", KEY, "shards") == b"4", "the same state"
            run_hook(settings, tool_event("toolu_1"), "--wait=1")
            wait_until(lambda: tb.history("s1"), f"the hook's call is applied {troubles(settings)}")
            queue = "tbq:events"
            wait_until(lambda: sentinels.new.command("LLEN", queue) == 0, "wake-ups are taken there too")
        assert workers.processes[0].poll() is None
    finally:
        workers.kill_all()


@pytest.mark.slow
def test_a_failover_while_a_host_publishes_loses_what_the_replica_had_not_read_and_repeats_nothing(
    sentinels: Sentinels, tmp_path: Path
) -> None:
    """Events that are published while there is no primary wait on the host's disk, and have their effect once."""
    settings = Settings(redis_url=sentinels.url, data_dir=str(tmp_path / "data"))
    workers, promoted = Workers(settings, tmp_path), threading.Event()
    sent: list[bool] = []  # of each event, whether it was spooled when the call returned
    try:
        with connect(settings=settings) as tb:
            shard, after = tb.context.layout.of("s"), 0

            def publish_until_promoted() -> None:
                nonlocal after
                while after < 20:
                    after += promoted.is_set()
                    event = ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
                    tb.context.publisher.publish(event)
                    tb.flush()
                    sent.append(tb.context.publisher.spooled)

            host = threading.Thread(target=publish_until_promoted)
            host.start()
            wait_until(lambda: len(sent) > 60, "it publishes")
            sentinels.first.kill()
            wait_until(lambda: any(sent), "some are published while there is no primary")
            left = b"master_link_status:up"
            wait_until(lambda: left not in sentinels.new.command("INFO", "replication"), "it has read what came")
            kept = sentinels.new.command("XLEN", shard.key("in", "events"))
            sentinels.fail_over()
            promoted.set()
            host.join(60)
            assert not host.is_alive()
            wait_until(lambda: answers(tb.context.database), "it is followed")

            def spool_is_sent() -> bool:
                tb.flush()
                return not tb.context.publisher.spooled

            wait_until(spool_is_sent, "its spool is sent")
            workers.start()
            store, stream = Evaluations(tb.context.database, shard), shard.key("in", "events")
            wait_until(lambda: not sentinels.new.command("XLEN", stream), f"applied {workers.logs[0]}")
            lost = max(0, sent.index(True) - kept)  # at most: the reply to the next one may be lost, and not the event
            assert store.counts(EvaluationId("s", "p", "e")).calls == len(sent) - lost
    finally:
        workers.kill_all()


def test_a_former_primary_without_replicas_takes_no_event_that_would_be_lost(
    sentinels: Sentinels, tmp_path: Path
) -> None:
    """The former primary took 12 s of writes before the Sentinels demoted it; with this setting it takes none.

    Nothing is published in the instant in which the replica leaves: what the primary takes just before it sees that,
    the replica may not have read.
    """
    former, settings = Database(sentinels.first.url), Settings(redis_url=sentinels.url, data_dir=str(tmp_path / "data"))
    for client in (former, sentinels.new):
        client.command("CONFIG", "SET", "min-replicas-to-write", 1)
    with closing(former), closing(Database(sentinels.watchers[0].url)) as watcher, connect(settings=settings) as tb:
        stream, sent = tb.context.layout.of("s").key("in", "events"), 0

        def publish_until_demoted() -> bool:
            nonlocal sent
            event = ToolInvoked(event_id=new_event_id(), session="s", prompt="p", evaluation="e", tool="t")
            tb.context.publisher.publish(event)
            tb.flush()
            sent += 1
            return b"role:slave" in former.command("INFO", "replication")

        assert not publish_until_demoted()
        assert former.command("WAIT", 1, 5_000) == 1
        assert watcher.command("SENTINEL", "FAILOVER", NAME) == b"OK"
        wait_until(lambda: b"connected_slaves:0" in former.command("INFO", "replication"), "the replica leaves")
        wait_until(publish_until_demoted, "the former primary is demoted")
        wait_until(lambda: answers(tb.context.database), "the new one is followed")

        def all_sent() -> bool:
            tb.flush()
            return not tb.context.publisher.spooled

        wait_until(all_sent, "the spool is sent")
        assert sentinels.new.command("XLEN", stream) == sent


def test_celery_asks_a_sentinel_that_is_away_once(sentinels: Sentinels) -> None:
    """Each connection asked it four times, for 4 s.

    A worker that was not yet ready when the primary and the first Sentinel of the URL died was ready 39 s after the
    failover, where it takes three.
    """
    with socket.create_server(("127.0.0.1", 0)) as away:  # it accepts connections, and never answers
        url = f"sentinel://127.0.0.1:{away.getsockname()[1]};{sentinels.url}"
        app = Celery()
        app.conf.update(broker_config(Settings(redis_url=url)))
        with app.connection() as connection:
            connection.connect()
        away.settimeout(0)
        away.accept()[0].close()
        with pytest.raises(BlockingIOError):
            away.accept()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "refuse the login. Check sentinel_username and sentinel_password"),
        ("&sentinel_password=wrong", "refuse the login. Check sentinel_username and sentinel_password"),
        ("&sentinel_password=right", "know none of this name that answers. Check master_name"),
    ],
)
def test_why_no_sentinel_names_a_primary_is_one_short_line(tmp_path: Path, options: str, said: str) -> None:
    """It was 3,000 characters of redis-py's own settings, and advice to start a Redis."""
    path = tmp_path / "sentinel.conf"
    path.write_text("requirepass right\n")
    with RedisServer.start(tmp_path, str(path), "--sentinel") as watcher:
        url = f"sentinel://127.0.0.1:{watcher.port}/0?master_name={NAME}{options}"
        with closing(Database(url)) as database, pytest.raises(Unavailable) as raised:
            database.command("PING")
    assert str(raised.value).startswith(f"The Sentinels at 127.0.0.1:{watcher.port} name no primary: they {said}")


def test_an_error_of_a_dead_primary_does_not_blame_the_sentinels(sentinels: Sentinels) -> None:
    """The error said that Redis at the addresses of the Sentinels, which lived, cannot be reached, and to start it."""
    sentinels.first.kill()
    with closing(Database(sentinels.url)) as database, pytest.raises(Unavailable) as raised:
        database.command("PING")
    addresses = ", ".join(f"127.0.0.1:{watcher.port}" for watcher in sentinels.watchers)
    assert str(raised.value).startswith(f"Can't reach Redis at the address that the Sentinels at {addresses} name (")
    assert "tellback up" not in str(raised.value)


@pytest.mark.parametrize("refuses", [True, False])
def test_an_error_of_a_living_primary_does_not_blame_the_sentinels(sentinels: Sentinels, *, refuses: bool) -> None:
    addresses = ", ".join(f"127.0.0.1:{watcher.port}" for watcher in sentinels.watchers)
    said = f"Redis at the address that the Sentinels at {addresses} name"
    breaker = CircuitBreaker()
    with closing(Database(sentinels.url, breaker=breaker)) as database:
        database.command("PING")
        if refuses:
            database.command("ACL", "SETUSER", "default", "-set")
        else:
            breaker.trip()  # as a call does that got no reply
        with pytest.raises(Unavailable, match=f"^{said} {'refused the call' if refuses else 'did not answer'}"):
            database.command("SET", "key", "value")


def test_sentinels_that_are_away_are_said_to_be() -> None:
    url = f"sentinel://127.0.0.1:1/0?master_name={NAME}"
    with closing(Database(url)) as database, pytest.raises(Unavailable, match="primary: they do not answer"):
        database.command("PING")


@pytest.mark.parametrize("url", ["sentinel://127.0.0.1:1/0", "sentinel://;h/0?master_name=m"])
def test_a_url_of_sentinel_that_lacks_a_part_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="master_name"):
        Database(url)
