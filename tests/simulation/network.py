"""The client of Redis in the simulation: the real one, behind a network that delays, repeats and loses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.state.redis_py import SOCKET_TIMEOUT
from tellback.state.script_calls import Arg, Command, FirstCall, ScriptCall
from tests.simulation.scheduler import Process, Scheduler, SimulatedTask

TRIP = 0.000_2  # seconds of a round trip
MOST_PASSING = 8  # round trips of others that pass while a process pauses between a reply and what it does next
STALL = 0.05  # seconds for which it does so at most

FAULTS = ("refused", "slow", "reply lost, sent again", "reply lost", "late", "slow reply")


@dataclass
class Network:
    """The faults of one run: how likely one is in a round trip, and whether Redis can be reached at all."""

    scheduler: Scheduler
    fault: float = 0.0
    stall: float = 0.0
    away: bool = False
    trips: int = 0
    passing: list[tuple[int, SimulatedTask]] = field(default_factory=list[tuple[int, "SimulatedTask"]])
    waiting: list[SimulatedTask] = field(default_factory=list["SimulatedTask"])

    def wait_for_change(self, seconds: float) -> None:
        """Wait until somebody else has run a command, as one waits in a blocking command."""
        me = self.scheduler.current
        assert me is not None, "only tasks wait"
        self.waiting.append(me)
        self.scheduler.park(seconds)
        if me in self.waiting:
            self.waiting.remove(me)

    def trip(self, timeout: float, send: Callable[[], Any], *, repeat: bool = True) -> Any:
        """Run one round trip, and wake those who wait in blocking commands."""
        reply = self._trip(timeout, send, repeat=repeat)
        waiting, self.waiting = self.waiting, []
        for task in waiting:
            self.scheduler.wake(task)
        return reply

    def poll(self, timeout: float, send: Callable[[], Any]) -> Any:
        """Run one round trip on behalf of a blocking command."""
        return self._trip(timeout, send)

    def _trip(self, timeout: float, send: Callable[[], Any], *, repeat: bool = True) -> Any:
        self.scheduler.yield_turn()
        if self.away:
            self.scheduler.sleep(min(timeout, 0.2))
            raise Unavailable("simulated: Redis is away")
        choices = self.scheduler.choices
        if not choices.chance(self.fault, "fault"):
            return self._answered(send)
        kind = FAULTS[choices.pick(len(FAULTS), "kind")]
        if kind == "refused":
            raise Unavailable("simulated: connection refused")
        delay = choices.between(0.0, min(timeout, 1.0), "delay")
        if kind == "slow":
            self.scheduler.sleep(delay)
            return self._answered(send)
        if kind == "late":  # the request arrives after the client has given up
            self._send_late(timeout + 4 * delay, send)
            self.scheduler.sleep(timeout)
            raise Unavailable("simulated: time-out")
        reply = self._answered(send)
        if kind == "reply lost" or (kind == "reply lost, sent again" and not repeat):
            raise Unavailable("simulated: connection reset")
        self.scheduler.sleep(delay)
        return self._answered(send) if kind == "reply lost, sent again" else reply

    def _answered(self, send: Callable[[], Any]) -> Any:
        reply = send()
        self.scheduler.advance(TRIP)
        self._count_trip()
        if self.scheduler.choices.chance(self.stall, "stall"):
            self._let_pass(1 + self.scheduler.choices.pick(MOST_PASSING, "round trips that pass"))
        else:
            self.scheduler.yield_turn()
        return reply

    def _let_pass(self, trips: int) -> None:
        """Wait until others have made some round trips: what races need, and random times seldom give."""
        me = self.scheduler.current
        assert me is not None, "only tasks wait"
        self.passing.append((self.trips + trips, me))
        self.scheduler.park(STALL)
        self.passing = [(trip, task) for trip, task in self.passing if task is not me]

    def _count_trip(self) -> None:
        self.trips += 1
        for trip, task in self.passing:
            if trip <= self.trips:
                self.scheduler.wake(task)

    def _send_late(self, seconds: float, send: Callable[[], Any]) -> None:
        me = self.scheduler.current
        assert me is not None, "only tasks send"
        me.process.heard_until = max(me.process.heard_until, self.scheduler.now + seconds)
        self.scheduler.spawn(self._process(), lambda: self._arrive(seconds, send), "late request")

    def _arrive(self, seconds: float, send: Callable[[], Any]) -> None:
        self.scheduler.sleep(seconds)
        if not self.away:
            with suppress(Unavailable, ResponseError):  # whatever Redis answers, nobody hears of it
                send()

    def _process(self) -> Process:
        """Return the process of requests on their way; they outlive their sender."""
        return self.scheduler.processes[0]


class SimulatedDatabase(Database):
    """A client of Redis of one process of the simulation."""

    def __init__(self, url: str, network: Network, process: Process, *, call_deadline: float | None = None) -> None:
        super().__init__(url)
        self._network = network
        self._process = process
        self._timeout = call_deadline or SOCKET_TIMEOUT

    def command(self, *parts: Arg) -> Any:
        if parts[0] == "BLPOP":
            value = self._poll(float(str(parts[-1])), ("LPOP", parts[1]))
            return None if value is None else [parts[1], value]
        if "BLOCK" in parts:
            at = parts.index("BLOCK")
            return self._poll(float(parts[at + 1]) / 1000, (*parts[:at], *parts[at + 2 :]))
        return self.pipeline([parts])[0]

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True, repeat: bool = True) -> list[Any]:
        if not commands:
            return []
        if "BLOCK" in commands[0]:  # it waits; the others follow at once
            waited = self.command(*commands[0])
            return [waited, *self.pipeline(commands[1:], raise_on_error=raise_on_error, repeat=repeat)]
        send = super().pipeline
        replies: list[Any] = self._network.trip(
            self._timeout, lambda: send(commands, raise_on_error=raise_on_error), repeat=repeat
        )
        return replies

    def scan_step(self, pattern: str, count: int) -> list[bytes]:
        scan = super().scan_step
        found: list[bytes] = self._network.trip(self._timeout, lambda: sorted(scan(pattern, count)))
        return found

    def blocking(
        self, seconds: float, *parts: Arg, then: ScriptCall | None = None, first: FirstCall | None = None
    ) -> Any:
        name, *rest = parts
        assert name in ("BLMOVE", "BLPOP"), f"no stand-in for {name!r}"
        if first is not None:
            first.answered(self.run_each([first.call])[0])
        # as LPOP, but of several lists
        reply = self._poll(seconds, ("LMOVE", *rest) if name == "BLMOVE" else ("LMPOP", len(rest), *rest, "LEFT"))
        return reply if then is None else self.run(then)

    def _poll(self, seconds: float, command: Command) -> Any:
        network, send = self._network, super().pipeline
        end = network.scheduler.now + seconds
        while True:
            reply = network.poll(self._timeout, lambda: send([command])[0])
            if reply is not None or network.scheduler.now >= end:
                return reply
            network.wait_for_change(end - network.scheduler.now)
