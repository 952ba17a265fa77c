"""Several transports on few conversations: an answer that comes while its queue is found empty is still delivered."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

import pytest

from tellback import OutgoingResponse, Tellback, connect
from tellback.client.outbox import open_outbox
from tellback.client.turns import Turn
from tellback.settings import Settings
from tests.support.turns import SENT, opened
from tests.support.waiting import wait_until

TRANSPORTS: Final = 3
TALKS: Final = 12
IN_A_TALK: Final = 250
MOST_IDLE: Final = 75  # rounds in vain, after which nothing more comes


class AnswerStory:
    """Answers of each conversation, each posted as soon as a transport has stored that the one before was sent."""

    def __init__(self, tb: Tellback) -> None:
        self.sent = list[tuple[str, str | None]]()
        self.idle = 0  # rounds of all transports in a row that found nothing
        self._next: dict[str, Iterator[Turn]] = {
            f"c{talk}": iter([opened(tb, conversation=f"c{talk}", answer_within=600) for _ in range(IN_A_TALK)])
            for talk in range(TALKS)
        }

    def answer(self, conversation: str) -> None:
        turn = next(self._next[conversation], None)
        if turn is not None:
            turn.respond(OutgoingResponse.text_only(turn.id))

    def begin(self) -> None:
        for conversation in self._next:
            self.answer(conversation)

    def carry(self, tb: Tellback, over: threading.Event) -> None:
        """One transport, and the host that hears of each delivery."""
        while not over.is_set():
            self.idle += 1
            for delivery in tb.outbox("chat", wait=0.2):
                self.idle = 0
                if delivery.settle(SENT) == "delivered":
                    self.sent.append((delivery.conversation, delivery.response.text))
                    self.answer(delivery.conversation)


@pytest.mark.slow
def test_each_answer_is_delivered_though_transports_find_its_queue_empty(tb: Tellback, settings: Settings) -> None:
    """Before an index was changed by scripts alone, all twelve were stuck after 460 of 3,000 deliveries."""
    story, over = AnswerStory(tb), threading.Event()
    total = TALKS * IN_A_TALK
    with ExitStack() as stack, ThreadPoolExecutor(TRANSPORTS) as pool:
        clients = [stack.enter_context(connect(settings=settings)) for _ in range(TRANSPORTS)]
        story.begin()
        runs = [pool.submit(story.carry, client, over) for client in clients]
        try:
            wait_until(
                lambda: len(story.sent) >= total or story.idle > MOST_IDLE,
                "all is delivered, or nothing more comes",
                timeout=100,
            )
        finally:
            over.set()
        for run in runs:
            run.result()
    counts = Counter(story.sent)
    assert (len(story.sent), set(counts.values())) == (total, {1}), "every delivery once"
    assert open_outbox(tb.context).pending("chat", 10) == []
