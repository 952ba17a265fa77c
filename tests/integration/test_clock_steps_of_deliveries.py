"""Redis' wall clock steps by an hour: a delivery has one transport at a time, and is tried again on time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tellback import RoutingOutcome, Tellback
from tellback.client.outbox import open_outbox
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.steady import observe, skews
from tests.support.clocks import HOUR, ServerClock, step, steps
from tests.support.deliveries import answered, first
from tests.support.turns import SENT, sent, swept


@steps
def test_a_delivery_is_tried_again_in_its_time(tb: Tellback, clock: ServerClock, hours: int) -> None:
    answered(tb, "1")
    swept(tb)
    assert first(tb).settle(RoutingOutcome(attempted=True, error="429", retry_after=300)) == "retry"
    step(clock, hours)
    swept(tb)
    clock.passes(290)
    assert list(tb.outbox("chat")) == []
    clock.passes(20)
    assert first(tb).attempt == 2


@steps
@pytest.mark.parametrize("host", ["", "another"])
def test_a_step_ends_no_lease_of_a_delivery(
    tb: Tellback, clock: ServerClock, on_another_host: Callable[[str], None], hours: int, host: str
) -> None:
    """No sweep comes in between; a second transport once got, and sent, what the first was sending."""
    answered(tb, "1")
    swept(tb)
    sending = first(tb)
    if host:
        on_another_host(host)
    step(clock, hours)
    assert list(tb.outbox("chat")) == []
    assert sending.settle(SENT) == "delivered"


@steps
def test_a_step_between_a_list_and_a_claim_ends_no_lease(tb: Tellback, clock: ServerClock, hours: int) -> None:
    answered(tb, "1")
    swept(tb)
    outbox = open_outbox(tb.context)
    [(place, listed)] = outbox.ready("chat", 10)
    taken = outbox.claim(place, listed)
    assert taken is not None
    step(clock, hours)
    assert outbox.claim(place, listed) is None
    assert outbox.settle(place, taken, RoutingOutcome(attempted=True, error="?", ambiguous=True)) == "ambiguous"
    swept(tb)
    clock.passes(2)
    [(place, listed)] = outbox.ambiguous("chat", 10)
    assert outbox.claim_ambiguous(place, listed) is not None
    step(clock, hours)
    assert outbox.claim_ambiguous(place, listed) is None, "one asks at a time"


def test_a_delivery_claimed_before_a_step_forward_is_observed_keeps_its_lease(tb: Tellback, clock: ServerClock) -> None:
    answered(tb, "1")
    swept(tb)
    step(clock, 24)
    first(tb, 0)
    swept(tb)
    assert list(tb.outbox("chat")) == []
    clock.passes(tb.context.settings.outbox_lease + 1)
    assert first(tb, 0).attempt == 2


def test_a_delivery_that_fails_before_a_step_forward_is_observed_is_tried_within_seconds(
    tb: Tellback, clock: ServerClock
) -> None:
    """`make chaos SEED=11` found one that waited an hour."""
    answered(tb, "1")
    swept(tb)
    sending = first(tb, 0)
    step(clock, 1)
    assert sending.settle(RoutingOutcome(attempted=True, error="429", retry_after=30)) == "retry"
    swept(tb)
    clock.passes(29)
    assert list(tb.outbox("chat")) == []
    clock.passes(11)
    assert first(tb, 0).attempt == 2


def test_a_new_host_without_workers_takes_the_time_for_time_after_ten_seconds(
    tb: Tellback, clock: ServerClock, on_another_host: Callable[[str], None]
) -> None:
    """Until then a worker may still say that it was a step; afterwards this host can tell by itself."""
    swept(tb)
    on_another_host("another")
    clock.passes(60)
    answered(tb, "1")
    assert list(tb.outbox("chat")) == []
    clock.passes(9)
    assert list(tb.outbox("chat")) == []
    clock.passes(2)
    first(tb, 0)
    step(clock, 1)
    assert list(tb.outbox("chat")) == []
    clock.passes(tb.context.settings.outbox_lease + 1)
    assert first(tb, 0).attempt == 2


def test_an_answer_before_a_step_forward_is_observed_waits_for_seconds(tb: Tellback, clock: ServerClock) -> None:
    """`make chaos SEED=1` found three answers that waited an hour, since their turns came before the next sweep."""
    swept(tb)
    answered(tb, "before")
    step(clock, 1)
    answered(tb, "behind it")
    answered(tb, "between", conversation="c2")
    first(tb, 0).settle(SENT)  # what is behind it may be taken from now on
    swept(tb)
    clock.passes(10)
    swept(tb)
    assert sorted(text or "" for _, _, text in sent(tb)) == ["behind it", "between"]


def test_observers_that_come_and_go_count_each_step_once(
    database: Database, one: Layout, clock: ServerClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts, whose clocks began at different times, see the same steps; a third comes between."""
    import tellback.clock as host

    boots = {"a": 100.0, "b": 5_000.0, "c": 77.0}
    elapsed = host.since_boot

    def sees(name: str) -> int:
        monkeypatch.setattr(host, "boot_id", lambda: name)
        real = elapsed
        monkeypatch.setattr(host, "since_boot", lambda: real() + boots[name])
        observe(database, one.all)
        return round(skews(database, one.all)[0] / 1000)

    assert [sees(name) for name in "abab"] == [0, 0, 0, 0]
    step(clock, 1)
    assert [sees(name) for name in "cabcab"] == [0, HOUR, HOUR, HOUR, HOUR, HOUR]
    step(clock, -3)
    assert [sees(name) for name in "bcaabc"] == [-2 * HOUR] * 6
