"""Turns as a state machine: any sequence of calls of several hosts, on a real Redis, against a model of a few lines.

The states and the arrows are those that docs/loops/turns.md draws.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tellback import OutgoingResponse, RoutingOutcome, StateConflict, Tellback, connect
from tellback.client.outbox import OutboxDelivery, open_outbox, to_outbox_delivery
from tellback.client.turns import Turn
from tellback.settings import Settings
from tellback.state.database import Database
from tests.support.examples import examples
from tests.support.turn_model import Owed, Sent
from tests.support.turns import deadline_passes, opened, store, swept

HOSTS = ("host-1", "host-2", "host-3")
OF_ONE_TALK = [("c1", str(number)) for number in range(6)]
MESSAGES = st.sampled_from([*OF_ONE_TALK, ("c2", "1"), ("c2", "2")])
CLIENTS = st.integers(0, len(HOSTS) - 1)
OUTCOMES = {
    "delivered": RoutingOutcome(attempted=True, sent_voice=True),
    "down": RoutingOutcome(attempted=False),
    "refused": RoutingOutcome(attempted=True, error="500"),
    "ambiguous": RoutingOutcome(attempted=True, ambiguous=True),
    "dead": RoutingOutcome(attempted=True, permanent=True),
}


class TurnsMachine(RuleBasedStateMachine):
    """The acts of hosts, sweepers and transports, in any order."""

    hosts: ClassVar[list[Tellback]]

    def __init__(self) -> None:
        super().__init__()
        self.owed: dict[tuple[str, str], Owed] = {}
        self.queues: dict[str, list[Sent]] = {"c1": [], "c2": []}
        self.taken: dict[str, OutboxDelivery] = {}
        self.held: set[str] = set()  # conversations whose first delivery is leased or rests
        self.words = 0

    @property
    def tb(self) -> Tellback:
        """The first host, where it does not matter which."""
        return self.hosts[0]

    def seen_by(self, client: int, message: tuple[str, str]) -> tuple[Owed, Turn] | None:
        """A turn as it should be, and as a host has it: its own, or joined by the id."""
        owed = self.owed.get(message)
        return None if owed is None else (owed, self.hosts[client].turn(owed.turn.id))

    @initialize(messages=st.lists(MESSAGES, min_size=6, unique=True))
    def begin(self, messages: list[tuple[str, str]]) -> None:
        """An empty Redis, and some turns, so that there is something to do."""
        self.tb.context.database.command("FLUSHALL")
        for number, message in enumerate(messages):
            self.opens(message, auto=False, client=number % len(HOSTS))

    @rule(message=MESSAGES, auto=st.booleans(), client=CLIENTS)
    def open(self, message: tuple[str, str], *, auto: bool, client: int) -> None:
        self.opens(message, auto=auto, client=client)

    def opens(self, message: tuple[str, str], *, auto: bool, client: int) -> None:
        talk, number = message
        turn = opened(
            self.hosts[client],
            conversation=talk,
            message_id=number,
            metadata={"auto.mode": auto},
            answer_within=30.0 + int(number),  # so that the deadlines of a merge differ
        )
        assert turn.duplicate == (message in self.owed)
        self.owed.setdefault(message, Owed(turn, "auto" if auto else "open"))

    @rule(message=MESSAGES, client=CLIENTS, late_within=st.sampled_from([0.0, None]))
    def respond(self, message: tuple[str, str], client: int, late_within: float | None) -> None:
        self.answers(message, client, late_within)

    def answers(self, message: tuple[str, str], client: int, late_within: float | None) -> None:
        found = self.seen_by(client, message)
        if found is None:
            return
        owed, turn = found
        self.words += 1
        text = f"answer {self.words}"
        result = turn.respond(OutgoingResponse.text_only(text), late_within=late_within)
        waiting = next((item for item in self.queues[message[0]] if item.key == f"{owed.turn.id}:first"), None)
        if owed.state in {"open", "finishing", "auto"}:
            assert result == "accepted"
            self.post(message, "answer", text)
            owed.becomes("responded")
        elif owed.state == "no_reply":
            assert result == "closed"
        elif owed.state == "merged":
            assert result == "merged"
        elif owed.state == "responded" or owed.late:
            assert result == "duplicate"
        elif waiting is not None and not waiting.touched and not waiting.lapsed:
            assert result == "replaced"
            waiting.kind, waiting.text = "answer", text
            owed.becomes("responded")
        elif late_within == 0:
            assert result == "stale"
            owed.late = True
        else:
            assert result == "late"
            owed.late = True
            self.post(message, "late", text)

    @rule(message=MESSAGES, client=CLIENTS)
    def fail(self, message: tuple[str, str], client: int) -> None:
        found = self.seen_by(client, message)
        if found is None:
            return
        owed, turn = found
        result = turn.fail(code="x")
        if owed.state in {"open", "finishing"}:
            assert result == "accepted"
            self.post(message, "answer", None)
            owed.becomes("responded")
        elif owed.state in {"auto", "no_reply"}:
            assert result == "closed"
            self.needs_no_reply(owed)
        else:
            assert result == ("merged" if owed.state == "merged" else "duplicate")

    @rule(message=MESSAGES, client=CLIENTS)
    def no_reply(self, message: tuple[str, str], client: int) -> None:
        found = self.seen_by(client, message)
        if found is None:
            return
        owed, turn = found
        try:
            turn.no_reply(reason="meant")
        except StateConflict:
            assert owed.state in {"responded", "fallback", "merged"}
        else:
            assert owed.state not in {"responded", "fallback", "merged"}
            self.needs_no_reply(owed)

    @rule(message=MESSAGES, client=CLIENTS, seconds=st.sampled_from([None, 60.0, 600.0]))
    def progress_or_defer(self, message: tuple[str, str], client: int, seconds: float | None) -> None:
        found = self.seen_by(client, message)
        if found is not None:
            owed, turn = found
            left = turn.progress() if seconds is None else turn.defer(seconds=seconds)
            assert (left > 0) == (owed.state == "open")
            owed.overdue = owed.overdue and owed.state != "open"

    @rule(message=MESSAGES, client=CLIENTS, host=st.sampled_from(HOSTS))
    def hand_over(self, message: tuple[str, str], client: int, host: str) -> None:
        found = self.seen_by(client, message)
        if found is None:
            return
        owed, turn = found
        try:
            turn.hand_over(to=host)
        except StateConflict:
            assert owed.state != "open"
        else:
            assert owed.state == "open"
            owed.host = host

    @rule(messages=st.permutations(OF_ONE_TALK), client=CLIENTS, count=st.integers(1, 2))
    def merge(self, messages: list[tuple[str, str]], client: int, count: int) -> None:
        into, *messages = messages[: count + 1]
        if not {into, *messages} <= self.owed.keys():
            return
        covered, cover = [self.owed[message] for message in messages], self.owed[into]
        free = [owed for owed in covered if owed.state in {"open", "auto"}]
        refused = any(owed not in free and owed.into != into for owed in covered)
        try:
            self.hosts[client].merge_turns([owed.turn for owed in covered], into=cover.turn)
        except StateConflict:
            assert refused or (free and cover.state != "open")
            return
        assert not refused
        assert not free or cover.state == "open"
        for owed in free:
            cover.overdue = cover.overdue or (owed.overdue and owed.state == "open")
            owed.becomes("merged")
            owed.into = into

    @rule(message=MESSAGES)
    def answer_is_on_its_way(self, message: tuple[str, str]) -> None:
        owed = self.owed.get(message)
        if owed is not None:
            self.tb_state(owed, store(self.tb).mark_finishing(owed.turn.ref, 60_000))

    def tb_state(self, owed: Owed, reported: str) -> None:
        if owed.state == "open":
            owed.becomes("finishing")
            owed.overdue = False
        assert reported == owed.state

    @rule(message=MESSAGES)
    def time_passes(self, message: tuple[str, str]) -> None:
        """The deadline, or the grace, of a turn goes by."""
        owed = self.owed.get(message)
        if owed is not None:
            self.expire(owed)

    def expire(self, owed: Owed) -> None:
        if owed.state in OPEN:
            deadline_passes(self.tb, owed.turn)
            owed.overdue = True

    @rule()
    def sweep(self) -> None:
        self.sweep_all()

    def sweep_all(self) -> None:
        due = [(message, owed) for message, owed in self.owed.items() if owed.overdue and owed.state in OPEN]
        order = store(self.tb).overdue(100)
        assert swept(self.tb) == len(due)
        for message, owed in sorted(due, key=lambda item: order.index(item[1].turn.id)):
            self.post(message, "fallback", None)
            owed.becomes("fallback")

    @rule(message=MESSAGES, sending=st.booleans(), late_within=st.sampled_from([0.0, None]))
    def host_falls_silent(self, message: tuple[str, str], *, sending: bool, late_within: float | None) -> None:
        """Play a course that rules seldom come to: a fallback, which a transport may have, and then the answer."""
        if message in self.owed:
            self.expire(self.owed[message])
            self.sweep_all()
            if sending:
                self.take_all()
            self.answers(message, 0, late_within)

    @rule()
    def take(self) -> None:
        """A transport takes what is ready, one delivery a conversation, and holds it."""
        self.take_all()

    def take_all(self) -> None:
        outbox = open_outbox(self.tb.context)
        ready = outbox.ready("chat", 10)
        assert {place.conversation for place, _ in ready} == {
            name for name in self.queues if self.queues[name]
        } - self.held
        for place, expected in ready:
            queue = self.queues[place.conversation]
            taken = outbox.claim(place, expected)
            if queue[0].final:
                assert taken is None
                queue.pop(0)
                continue
            assert taken is not None
            assert (taken.key, taken.kind) == (queue[0].key, queue[0].kind)
            queue[0].lapsed = queue[0].lapsed or queue[0].touched
            queue[0].touched = True
            self.held.add(place.conversation)
            self.taken[place.conversation] = to_outbox_delivery(outbox, place, taken)

    @rule(conversation=st.sampled_from(["c1", "c2"]), outcome=st.sampled_from(sorted(OUTCOMES)))
    def settle(self, conversation: str, outcome: str) -> None:
        delivery = self.taken.pop(conversation, None)
        if delivery is None:
            return
        head = self.queues[conversation][0]
        result = delivery.settle(OUTCOMES[outcome])
        if outcome == "refused" and delivery.attempt >= self.tb.context.settings.outbox_attempts:
            outcome = "dead"
        assert result == ("retry" if outcome in {"down", "refused"} else outcome)
        if outcome in {"delivered", "dead"}:
            self.queues[conversation].pop(0)
            self.held.discard(conversation)
        elif outcome == "ambiguous":
            head.final = True
        else:
            head.touched = False

    @rule(conversation=st.sampled_from(["c1", "c2"]))
    def rest_or_lease_ends(self, conversation: str) -> None:
        queue = self.queues[conversation]
        if not queue or (conversation in self.taken and self.taken[conversation].attempt >= 6):
            return  # the last attempts are a test of their own
        shard = self.tb.context.layout.of_turn("chat", conversation)
        self.tb.context.database.command("ZADD", shard.key("out", "chat"), "XX", 1, conversation)
        self.taken.pop(conversation, None)
        self.held.discard(conversation)

    def needs_no_reply(self, owed: Owed) -> None:
        if owed.state != "no_reply":
            owed.becomes("no_reply")

    def post(self, message: tuple[str, str], kind: str, text: str | None) -> None:
        owed = self.owed[message]
        suffix = "late" if kind == "late" else "first"
        owed.posted.append(suffix)
        self.queues[message[0]].append(Sent(f"{owed.turn.id}:{suffix}", kind, text))

    @invariant()
    def redis_and_model_agree(self) -> None:
        for owed in self.owed.values():
            assert owed.turn.state == owed.state
            assert owed.posted.count("first") <= 1
            assert (owed.state in {"responded", "fallback"}) == ("first" in owed.posted)
            assert (owed.into is not None) == (owed.state == "merged")
        pending = open_outbox(self.tb.context).pending("chat", 1_000)
        for conversation, queue in self.queues.items():
            found = [(item.key, item.kind) for place, _, item in pending if place.conversation == conversation]
            assert found == [(item.key, item.kind) for item in queue]

    @invariant()
    def what_is_owed_is_what_is_due(self) -> None:
        shards = self.tb.context.layout.all
        commands = [("ZRANGE", shard.key("due"), 0, -1, "WITHSCORES") for shard in shards]
        replies = self.tb.context.database.pipeline(commands)
        due = {turn.decode(): int(at) for reply in replies for turn, at in zip(reply[::2], reply[1::2], strict=True)}
        waiting = [owed.turn.id for owed in self.owed.values() if owed.state in OPEN]
        assert due == {turn.id: turn.deadline for turn in store(self.tb).load(waiting) if turn}
        assert due.keys() == set(waiting)

    @invariant()
    def a_host_finds_what_is_its(self) -> None:
        for host, tb in zip(HOSTS, self.hosts, strict=True):
            mine = {owed.turn.id for owed in self.owed.values() if owed.state == "open" and owed.host == host}
            assert {turn.id for turn in tb.handed_over()} == mine

    def teardown(self) -> None:
        """Whatever happened: once time is over each turn is closed, and each user got one answer, or none on purpose.

        A turn that was merged has its answer where the last of those that cover it has.
        """
        for owed in self.owed.values():
            self.expire(owed)
        self.sweep_all()
        for owed in self.owed.values():
            last = owed
            while last.into is not None:
                last = self.owed[last.into]
            assert owed.turn.state not in OPEN
            assert last.state in {"no_reply", "auto"} or last.posted.count("first") == 1


OPEN = {"open", "finishing"}


@contextmanager
def several(settings: Settings) -> Generator[list[Tellback]]:
    """A client of each host, with connections of its own."""
    with ExitStack() as stack:
        each = [msgspec.structs.replace(settings, host=host) for host in HOSTS]
        yield [stack.enter_context(connect(settings=one)) for one in each]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_sequence_of_calls_breaks_a_turn(database: Database, settings: Settings) -> None:
    del database
    patient = msgspec.structs.replace(settings, outbox_lease=3_600.0, outbox_retry=300.0, outbox_hold=3_600.0)
    with several(patient) as hosts:
        run_state_machine_as_test(
            type("Bound", (TurnsMachine,), {"hosts": hosts}),
            settings=profile(
                max_examples=examples(150),
                stateful_step_count=50,
                suppress_health_check=[HealthCheck.too_slow],
                database=None,
            ),
        )
