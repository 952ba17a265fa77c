"""Conversations of a hotel's service agent in the chat-completions form, written for the tests: no file is read.

They have what the tests judge in recorded ones: long results of one form that are much alike between guests, answers
that say part of a result, searches that find nothing, errors in several words, calls that are retried until they work,
and agents that keep failing. No rule was tuned on them, so neither their even nor their odd tasks are a tuning half.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from tests.support.outside_data import recorded

TASKS: Final = 28
TRIALS: Final = 2

_GUESTS: Final = ("guest_ash", "guest_birch", "guest_cedar", "guest_elm", "guest_fir", "guest_hazel", "guest_larch")
_CITIES: Final = ("Lisbon", "Oslo", "Turin", "Ghent", "Porto", "Vienna", "Bergen", "Basel", "Malmo", "Split")
_HOTELS: Final = ("Harbour House", "Old Mill", "Station Court", "Garden Lodge", "Bridge Inn", "Tower Rooms")
_VIEWS: Final = ("the river", "the square", "the garden", "the hills", "a quiet yard")
_EXTRAS: Final = ("breakfast", "a bicycle", "late departure", "a cot", "parking", "a desk")


class _Writer:
    """Writes the messages of one conversation."""

    def __init__(self, task: int, trial: int) -> None:
        self.messages: list[dict[str, Any]] = []
        self._label = f"{task}_{trial}"
        self._random = Random(1_000 * task + trial)
        self.guest = _GUESTS[task % len(_GUESTS)]
        self.city = _CITIES[task % len(_CITIES)]
        self.date = f"2031-0{1 + task % 9}-{10 + trial + task % 17}"
        self.booking = f"BK{4000 + 37 * task + trial}"

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def agent(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def call(self, tool: str, result: object, **arguments: object) -> None:
        """Add a call and its result, which is JSON unless it is a text."""
        number = f"call_{self._label}_{len(self.messages)}"
        function = {"name": tool, "arguments": json.dumps(arguments)}
        content = result if isinstance(result, str) else json.dumps(result)
        asked = {"id": number, "type": "function", "function": function}
        self.messages += [
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": number, "name": tool, "content": content},
        ]  # fmt: skip

    def greet(self, wish: str) -> None:
        self.user(f"Hello, I am {self.guest}. {wish}")
        stays = [{"booking": f"BK{self._random.randrange(1000, 9999)}", "nights": n} for n in (1, 3)]
        account = {"guest": self.guest, "member": self._random.choice(("silver", "gold")), "stays": stays}
        cards = [{"card": f"card_{self._random.randrange(1000, 9999)}", "kind": kind} for kind in ("credit", "gift")]
        self.call("get_guest", {**account, "payment": cards}, guest=self.guest)
        self.agent(f"Welcome back. I see your {account['member']} membership, and stays {stays[0]['booking']} and "
                   f"{stays[1]['booking']} on your account.")  # fmt: skip

    def rooms(self) -> list[dict[str, Any]]:
        """Search, and return the rooms that were found."""
        rooms = [
            {
                "room": f"R{self._random.randrange(100, 999)}",
                "hotel": self._random.choice(_HOTELS),
                "city": self.city,
                "date": self.date,
                "view": self._random.choice(_VIEWS),
                "extras": self._random.sample(_EXTRAS, 2),
                "price": self._random.randrange(80, 400),
                "beds": self._random.randrange(1, 4),
            }
            for _ in range(4)
        ]
        self.call("search_rooms", rooms, city=self.city, date=self.date)
        first, second = rooms[:2]
        self.agent(
            f"In {self.city} on {self.date} I found room {first['room']} at {first['hotel']} with a view of "
            f"{first['view']} for {first['price']}, "
            f"and room {second['room']} at {second['hotel']} for {second['price']}. Which one?"
        )
        return rooms

    def booked(self, room: dict[str, Any]) -> None:
        """Book a room with success."""
        receipt = {"booking": self.booking, "status": "confirmed", "guest": self.guest, **room}
        self.call("book_room", receipt, room=room["room"], date=self.date, paid=room["price"])
        self.agent(
            f"Your booking {self.booking} is confirmed: room {room['room']} at {room['hotel']}, {room['price']} in all."
        )
        self.user("Perfect, thank you.")
        self.agent("You are welcome. Have a good stay!")

    def wrong_payment(self, room: dict[str, Any], paid: int) -> None:
        error = f"Error: payment amount does not add up, total price is {room['price']}, but paid {paid}"
        self.call("book_room", error, room=room["room"], date=self.date, paid=paid)

    def hand_over(self) -> None:
        self.call("transfer_to_person", "Transfer successful", summary=f"{self.guest} could not be helped")
        self.agent("I am sorry. A colleague will take over from here.")


def _books(w: _Writer) -> None:
    w.greet(f"I would like a room in {w.city}.")
    rooms = w.rooms()
    w.user(f"The one at {rooms[0]['hotel']}, please.")
    w.booked(rooms[0])


def _corrects_a_payment(w: _Writer) -> None:
    w.greet(f"Please find me something in {w.city}.")
    room = w.rooms()[1]
    w.user("The second one. How much is it with the tax?")
    w.call("calculate", str(room["price"]), expression=f"{room['price']} * 1.0")
    w.agent(f"The total is {room['price']}. Shall I book it?")
    w.user("Yes.")
    w.wrong_payment(room, room["price"] - 20)
    w.booked(room)


def _changes(w: _Writer) -> None:
    w.greet(f"My booking {w.booking} should be on {w.date}.")
    held = {
        "booking": w.booking,
        "room": "R12",
        "hotel": "Old Mill",
        "city": w.city,
        "status": "confirmed",
        "nights": 2,
    }
    w.call("get_booking", held, booking=w.booking)
    w.agent(f"Booking {w.booking} is room R12 at the Old Mill in {w.city}, for 2 nights.")
    w.user("Yes, move that one.")
    w.call("change_booking", f"Error: room R12 not available on date {w.date}", booking=w.booking, date=w.date)
    w.agent(f"Room R12 is not free on {w.date}. Another room?")
    w.user("Any other is fine.")
    moved = {**held, "room": "R14", "date": w.date}
    w.call("change_booking", moved, booking=w.booking, date=w.date, room="R14")
    w.agent(f"Done: booking {w.booking} is now room R14 on {w.date}.")


def _cancels(w: _Writer) -> None:
    w.greet(f"Cancel {w.booking}, please.")
    held = {
        "booking": w.booking,
        "room": "R31",
        "hotel": "Bridge Inn",
        "city": w.city,
        "status": "confirmed",
        "nights": 1,
    }
    w.call("get_booking", held, booking=w.booking)
    w.agent(f"Booking {w.booking} is room R31 at the Bridge Inn in {w.city}. Shall I cancel it?")
    w.user("Yes.")
    w.call("cancel_booking", {**held, "status": "cancelled", "refund": 90}, booking=w.booking)
    w.agent(f"Booking {w.booking} is cancelled, and 90 will be refunded.")


def _never_pays_right(w: _Writer) -> None:
    w.greet(f"I need a room in {w.city}, and I have little time.")
    room = w.rooms()[0]
    w.user("The first, with my gift card.")
    for less in (60, 45, 30):
        w.wrong_payment(room, room["price"] - less)
    w.call("book_room", "Error: gift card balance is not enough", room=room["room"], date=w.date, paid=room["price"])
    w.hand_over()


def _finds_nothing(w: _Writer) -> None:
    w.greet(f"A room for nine in {w.city}, with a pool.")
    w.rooms()
    w.user("None of these. A family room, a year later?")
    w.call("search_family_rooms", [], city=w.city, date=w.date.replace("2031", "2032"))
    for beds in (9, 8, 7):
        w.call("search_rooms", [], city=w.city, date=w.date, beds=beds)
    w.agent("I could not find such a room.")
    w.user("Then look up my last booking.")
    w.call("get_booking", "Error: payment method not found", booking=w.booking)
    w.hand_over()


def _repeats_itself(w: _Writer) -> None:
    w.greet(f"Change the card of {w.booking}.")
    for _ in range(4):
        w.call("change_booking", "Error: payment method card_77 not found", booking=w.booking, card="card_77")
    w.user("Is it done?")
    w.hand_over()


_SOLVED: Final[tuple[Callable[[_Writer], None], ...]] = (_books, _corrects_a_payment, _changes, _cancels)
_UNSOLVED: Final[tuple[Callable[[_Writer], None], ...]] = (_never_pays_right, _finds_nothing, _repeats_itself)


def _rows() -> Iterator[dict[str, object]]:
    plots = (*_SOLVED, *_UNSOLVED)
    for trial in range(TRIALS):
        for task in range(TASKS):
            plot = plots[(task + trial) % len(plots)]
            writer = _Writer(task, trial)
            plot(writer)
            reward = 1.0 if plot in _SOLVED else 0.0
            yield {"task_id": task, "trial": trial, "reward": reward, "messages": writer.messages}


def written_conversations() -> bytes:
    """Return the conversations as the lines of a file of transcripts."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in _rows())


class Conversations(NamedTuple):
    """A file of transcripts and what people counted in it."""

    raw: bytes
    calls: int
    errors: int
    answers: int  # that follow a long result
    failing: int  # conversations, not solved, in which one tool fails three times without a success of it in between


def conversations_of(source: str) -> Conversations:
    """Return the conversations of `SOURCES`, written or recorded; without the recorded ones the test ends here."""
    if source == "written":
        return Conversations(written_conversations(), calls=288, errors=88, answers=144, failing=16)
    raw = recorded("agent_conversations.jsonl").read_bytes()
    return Conversations(raw, calls=1_001, errors=70, answers=327, failing=8)


SOURCES: Final = ("written", pytest.param("recorded", marks=pytest.mark.slow))
