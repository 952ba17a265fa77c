"""The other processes of the load: transports, hosts that speak to Redis by themselves, and hooks of a coding agent."""

from __future__ import annotations

import random
import subprocess
import threading
from typing import Final

import msgspec

from tellback import RoutingOutcome, Tellback
from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.settings import load
from tellback.state.keys import stream_of
from tests.chaos.history import History
from tests.chaos.loads import CHANNEL, EVALUATIONS, evaluation_of
from tests.chaos.plain import ask
from tests.support.hooks import start_hook, tool_event

SENT: Final = RoutingOutcome(attempted=True, sent_text=True)
POISON: Final = "poison"


def run_transport(tb: Tellback, history: History, stop: threading.Event) -> None:
    """Deliver what is in the outbox; one delivery in twenty fails at first and comes again."""
    dice, n = random.Random(history.who), 0
    while not stop.is_set():
        try:
            for delivery in tb.outbox(CHANNEL, wait=0.5):
                n += 1
                about = {"turn": delivery.turn_id, "kind": delivery.kind, "key": delivery.idempotency_key}
                history.note("outbox", "deliver", n, "invoked", **about)
                again = dice.random() < 0.05 and delivery.attempt < 4
                try:
                    settled = delivery.settle(RoutingOutcome(attempted=True) if again else SENT)
                except Unavailable:
                    history.note("outbox", "deliver", n, "unknown", **about)
                else:
                    history.note("outbox", "deliver", n, "returned", **about, settled=settled)
        except Unavailable:
            stop.wait(0.2)
    history.note("outbox", "ended", n, "returned")


def run_foreign(tb: Tellback, history: History, stop: threading.Event) -> None:
    """Append with plain XADD: tool calls, and entries of every family that nobody can read."""
    dice, n = random.Random(history.who), 0
    layout = tb.context.layout
    port = int(tb.context.settings.redis_url.rpartition(":")[2].partition("/")[0])
    while not stop.wait(dice.uniform(0.1, 0.5)):
        n += 1
        session, prompt, name = evaluation_of(n % (EVALUATIONS - 1))
        if n % 3:
            shard, family, loop = dice.choice(layout.all), dice.choice(list(Family)), POISON
            raw = msgspec.json.encode({"v": 1, "type": "Nonsense", "label": f"{POISON}-{history.who}-{n}."})
        else:
            shard, family, loop = layout.of(session), Family.EVENTS, "guidance"
            raw = encode(
                ToolInvoked(
                    event_id=new_event_id(), session=session, prompt=prompt, evaluation=name, tool=f"t-{history.who}"
                )
            )
        history.note(loop, "append", n, "invoked", evaluation=n % (EVALUATIONS - 1))
        try:
            # Not by the client, which sends a command again whose reply was lost: nothing would know the copy.
            ask(port, "XADD", stream_of(shard, family), "*", "m", raw)
        except OSError:
            history.note(loop, "append", n, "unknown")
        else:
            history.note(loop, "append", n, "returned")


def run_hooks(history: History, stop: threading.Event) -> None:
    """Run hook processes one after the other, as a coding agent does after each tool call; some die at once."""
    dice, n, settings = random.Random(history.who), 0, load()
    while not stop.wait(dice.uniform(0.5, 1.5)):
        n += 1
        history.note("hooks", "hook", n, "invoked")
        event = tool_event(f"{history.who}.{n}", session_id="hooked", tool_name=f"t-{history.who}")
        process = start_hook(settings, given=event)
        try:
            process.communicate(timeout=dice.choice((30, 30, 30, 0.15)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            history.note("hooks", "hook", n, "unknown")
        else:
            history.note("hooks", "hook", n, "unknown" if process.returncode else "returned", code=process.returncode)
