"""The connections to the nodes of a Redis Cluster: a pool for each primary, with redirections followed here.

Why redis-py's own `RedisCluster` is not used, docs/decisions/cluster-client.md says.

Every call of ours stays in one slot, since a shard is a slot. While a slot moves to another node, Redis refuses calls
of several keys with TRYAGAIN until all keys have moved. Such a call is repeated for `REPEAT_SECONDS`, then fails.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from typing import Any, Final, cast

from redis import exceptions

from tellback import clock
from tellback.backoff import Backoff
from tellback.forks import HasLock
from tellback.state.call_deadline import CallDeadline, CircuitBreaker
from tellback.state.cluster_call import CONFIRMATIONS, PASSING, ClusterCall, NodeAddress, final_reply
from tellback.state.redis_py import RedisConnections, checked_replies, open_socket
from tellback.state.script_calls import Command
from tellback.state.slots import slot_of_command
from tellback.urls import RedisServers

REPEAT_SECONDS: Final = 2.0  # seconds for which a call is repeated while its slot moves or has no primary
BACKOFF: Final = Backoff(0.005, longest=0.1)
AT_ONCE: Final = 4  # redirections without a delay; two nodes that name each other would be asked without one
SILENT_SECONDS: Final = 5.0  # after a call that a node did not answer; then it is asked again
QUICK_REPLY_SECONDS: Final = 0.02  # for which the caller that begins the asking waits for the node's reply
LOST_RETRIES: Final = 2  # of a call whose connection was lost, as on one server

EVERYWHERE: Final = frozenset({"FLUSHALL", "SCRIPT"})  # commands without a key that concern every primary

_UNANSWERED: Final = (exceptions.ConnectionError, exceptions.TimeoutError)


class ClusterConnections(HasLock):
    """The pooled connections to a cluster, with the methods of `RedisConnections`. Safe across threads and forks."""

    def __init__(self, servers: RedisServers, *, call_deadline: float | None, once: bool = False) -> None:
        """Prepare the pools; nothing is connected before the first call.

        With `once`, calls of a node that has just kept another waiting in vain fail without being sent.

        Raises:
            ValueError: the URL is not that of a Redis; the message may contain part of the password.
        """
        super().__init__()
        self._servers = servers
        self._seconds = call_deadline
        self._once = once
        self._deadline = None if call_deadline is None else CallDeadline(call_deadline, open_socket)
        self._pools: dict[NodeAddress, RedisConnections] = {}
        self._primaries: dict[int, NodeAddress] = {}  # by slot; empty: to be read
        self._silent: dict[NodeAddress, float] = {}  # nodes that did not answer, and until when that counts
        self._breakers = defaultdict[NodeAddress, CircuitBreaker](CircuitBreaker)
        self._closed = False
        for address in servers.addresses:
            self._pool(address)

    def run(self, command: Command) -> Any:
        """Run one command and return its reply. Without a key, it is sent to the next node if one does not answer."""
        [reply] = self.run_all([command])
        for _ in range(len(self._pools)):
            if not isinstance(reply, _UNANSWERED) or slot_of_command(command) is not None or self.all_silent():
                break
            [reply] = self.run_all([command])
        if isinstance(reply, Exception):
            raise reply
        return reply

    def run_all(self, commands: Sequence[Command], *, repeat: bool = True) -> list[Any]:
        """Run several commands, in one round trip to all nodes that they concern, and return their replies.

        Commands whose replies are lost are sent again, unless `repeat` is false.

        An error stands in the place of its reply; that of a node that does not answer too, since other nodes did.
        """
        if any(command[0] in EVERYWHERE for command in commands):
            return [self._run_everywhere(command) for command in commands]
        call = ClusterCall(commands, self._end(), LOST_RETRIES if repeat and self._seconds is None else 0)
        for attempt, delay in enumerate(chain((0.0,), BACKOFF.delays())):
            self._attempt(call)
            refused = self._keep_waiting(call)
            if not call.waiting or clock.monotonic() + delay >= call.end:
                return [final_reply(reply, call.asked.get(at)) for at, reply in enumerate(call.replies)]
            if refused or attempt > AT_ONCE:
                clock.sleep(delay)
        raise AssertionError("delays have no end")

    def run_blocking(self, seconds: float, command: Command, then: Sequence[Command] = ()) -> list[Any]:
        """Run a blocking command for at most `seconds`, and commands of its slot after it, as `RedisConnections` does.

        After a redirection all of them are sent again.
        """
        end = clock.monotonic() + seconds
        address, asking = self._primary(slot_of_command(command), self._end()), False
        for _ in range(AT_ONCE):
            left = max(0.0, end - clock.monotonic())
            try:
                replies = self._pool(address).run_blocking(left, command, then, asking=asking)
            except _UNANSWERED as error:
                error.add_note(f"{address[0]}:{address[1]}")
                self._primaries = {}
                raise
            redirection = next((reply for reply in replies if isinstance(reply, exceptions.AskError)), None)
            if redirection is None:
                if any(isinstance(reply, PASSING) for reply in replies):
                    self._primaries = {}
                return [final_reply(reply, address) for reply in replies]
            asking = not isinstance(redirection, exceptions.MovedError)  # which is an AskError too
            address = self._redirected(redirection, address)
        raise exceptions.ClusterDownError("the nodes redirect without end")

    def drop_idle(self) -> None:
        """Drop the idle connections; the next call reads again which node has which slot."""
        self._primaries = {}
        for pool in list(self._pools.values()):
            pool.drop_idle()

    def close(self) -> None:
        """Close the connections, those of calls under way when these end."""
        self._closed = True
        for pool in list(self._pools.values()):
            pool.close()

    def each_primary(self) -> list[RedisConnections]:
        """Return the connections to each primary."""
        self._primary(0, self._end())
        return [self._pool(address) for address in dict.fromkeys(self._primaries.values())]

    def answers(self, slot: int) -> bool:
        """Check whether the primary of a slot answered its last call; one that did not is asked again by a thread."""
        return self._answers(self._primary(slot, self._end()))

    def run_at_primaries(self, commands_of: Callable[[int], Sequence[Command]]) -> dict[NodeAddress, Any]:
        """Run commands at each primary, made from its number; return their replies or an error by address, in order.

        One that did not answer its last call is not asked, as in `answers`.
        """
        self._primary(0, self._end())
        replies: dict[NodeAddress, Any] = {}
        for number, address in enumerate(dict.fromkeys(self._primaries.values())):
            if not self._answers(address):
                replies[address] = exceptions.TimeoutError("a call before got no reply")
                continue
            try:
                replies[address] = checked_replies(self._pool(address).run_all(commands_of(number)))
            except _UNANSWERED as error:
                self._note_unanswered(address, error)
                replies[address] = error
            except exceptions.RedisError as error:
                replies[address] = error
        return replies

    def _answers(self, address: NodeAddress) -> bool:
        if address in self._silent and not self._is_silent(address):
            self._note_silent(address)  # so that no other caller begins a second thread
            # Not by this caller: a node that hangs held up each process for five seconds, again and again.
            asking = threading.Thread(target=self._ask_again, args=(address,), name="tellback-ask-again", daemon=True)
            with suppress(RuntimeError):  # the system gives no more; it is asked after the next silence
                asking.start()
                asking.join(QUICK_REPLY_SECONDS)  # one that is well again must not postpone what the caller does
        return address not in self._silent

    def unanswered_pings(self) -> list[tuple[Exception, bool]]:
        """Send each known node a PING. Return the errors of those that do not answer, and whether it is a primary."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only the doctor pings all nodes

        with suppress(*_UNANSWERED):
            self.each_primary()  # so that all are known
        primaries, found = set(self._primaries.values()), list[tuple[Exception, bool]]()
        with ThreadPoolExecutor(16) as threads:  # at once, since each node that hangs takes a whole deadline
            pings = {address: threads.submit(self._pool(address).run, ("PING",)) for address in list(self._pools)}
        for address, ping in pings.items():
            try:
                ping.result()
            except _UNANSWERED as error:
                self._note_unanswered(address, error)
                found.append((error, address in primaries))
        return found

    def all_silent(self) -> bool:
        """Check whether each known node left a call unanswered a moment ago."""
        return all(map(self._is_silent, list(self._pools)))

    def _ask_again(self, address: NodeAddress) -> None:
        try:
            with self._pool(address).sent([("CLUSTER", "SLOTS")]) as read:
                read()
            self._silent.pop(address, None)
        except _UNANSWERED:
            self._note_silent(address)
            self._primaries = {}  # another node may serve its slots by now

    def _run_everywhere(self, command: Command) -> Any:
        replies = [pool.run_all([command])[0] for pool in self.each_primary()]
        return next((reply for reply in replies if isinstance(reply, Exception)), replies[0])

    def _attempt(self, call: ClusterCall) -> None:
        """Send what waits to its nodes and store the replies."""
        groups: dict[NodeAddress, list[int]] = {}
        try:
            for at in call.waiting:
                address = call.asked[at] = call.asking.get(at) or self._primary(call.slots[at], call.end)
                groups.setdefault(address, []).append(at)
        except _UNANSWERED as error:
            call.lose(call.waiting, error)
            return
        # The nodes work side by side: each has all its commands before the first reply is read.
        with ExitStack() as stack:
            sent: list[tuple[list[int], Any]] = []
            left = self._left(call.end)
            for address, indexes in groups.items():
                try:
                    if self._once and self._breakers[address].is_open:
                        raise exceptions.TimeoutError("a call just before got no reply")
                    sent.append((indexes, stack.enter_context(self._pool(address).sent(call.packet(indexes), left))))
                except _UNANSWERED as error:
                    self._note_lost(call, indexes, error, left)
            for indexes, read in sent:
                address = call.asked[indexes[0]]
                try:
                    call.store(indexes, read())
                    self._silent.pop(address, None)
                except _UNANSWERED as error:
                    self._note_lost(call, indexes, error, left)

    def _note_lost(self, call: ClusterCall, indexes: Sequence[int], error: Exception, left: float) -> None:
        if self._is_late(left):
            call.lose(indexes, error)
        else:
            self._note_unanswered(call.asked[indexes[0]], error)
            call.store(indexes, error)

    def _is_late(self, left: float) -> bool:
        """Check whether refusals took most of a call's time: a node that gave no reply in the rest may be well."""
        return self._seconds is not None and -left > self._seconds / 2

    def _note_unanswered(self, address: NodeAddress, error: Exception) -> None:
        error.add_note(f"{address[0]}:{address[1]}")  # which the message of `Unavailable` names
        self._note_silent(address, error)

    def _note_silent(self, address: NodeAddress, error: Exception | None = None) -> None:
        if isinstance(error, exceptions.TimeoutError):
            self._breakers[address].trip()
        self._silent[address] = clock.monotonic() + SILENT_SECONDS

    def _is_silent(self, address: NodeAddress) -> bool:
        return self._silent.get(address, 0.0) > clock.monotonic()

    def _end(self) -> float:
        return clock.monotonic() + (self._seconds or REPEAT_SECONDS)

    def _left(self, end: float) -> float:
        """Return the seconds by which a call that begins now has to end before a whole call deadline, as negative."""
        return 0.0 if self._seconds is None else end - clock.monotonic() - self._seconds

    def _keep_waiting(self, call: ClusterCall) -> bool:
        """Keep calls that were redirected, or may still succeed, as waiting; return True if any was refused."""
        waiting, asking = list[int](), dict[int, NodeAddress]()
        refused = lost = False
        for at in call.waiting:
            reply = call.replies[at]
            if call.commands[at][0] in CONFIRMATIONS and waiting[-1:] == [at - 1]:
                waiting.append(at)
                if at - 1 in asking:
                    asking[at] = asking[at - 1]
            elif isinstance(reply, exceptions.AskError):
                address = self._redirected(reply, call.asked[at])
                if not isinstance(reply, exceptions.MovedError):
                    asking[at] = address
                waiting.append(at)
            elif isinstance(reply, PASSING):
                refused = True
                waiting.append(at)
            elif isinstance(reply, _UNANSWERED):
                lost = True
                # A node that was silent until the timeout is not asked again: the caller has waited long enough.
                if call.lost_retries > 0 and isinstance(reply, exceptions.ConnectionError):
                    waiting.append(at)
        if refused or lost:
            self._primaries = {}
        call.lost_retries -= lost
        call.waiting, call.asking = waiting, asking
        return refused or lost

    def _redirected(self, redirection: exceptions.AskError, asked: NodeAddress) -> NodeAddress:
        """Return the node that a redirection names, and note it if the slot has moved there."""
        named = cast("Any", redirection)  # redis-py leaves its attributes untyped
        # An empty host is that of the node which answered.
        address: NodeAddress = (str(named.host) or asked[0], int(named.port))
        # Not if another thread has forgotten all nodes: with one known, nobody would ask for the others again.
        if isinstance(redirection, exceptions.MovedError) and self._primaries:
            self._primaries = {**self._primaries, int(named.slot_id): address}
        return address

    def _primary(self, slot: int | None, end: float) -> NodeAddress:
        """Return the primary of a slot; a command without a key goes to the first that answers.

        Raises:
            ConnectionError: no node answers.
        """
        primaries = self._primaries or self._read_primaries(end)
        found = primaries.get(slot or 0)
        if slot is None and found is not None and not self._answers(found):
            return next((address for address in primaries.values() if address not in self._silent), found)
        # A slot that nobody serves: any node says so, which is the error that the caller needs.
        return found if found is not None else next(iter(primaries.values()), self._servers.addresses[0])

    def _read_primaries(self, end: float) -> dict[int, NodeAddress]:
        """Ask the known nodes, in random order, which node has which slot."""
        trouble: Exception = exceptions.TimeoutError("no time was left to ask which node has the slot")
        known, failed = list(self._pools), ""
        for asked, address in enumerate(sorted(random.sample(known, len(known)), key=self._silent.__contains__)):
            # The socket's timeout of a worker is longer than `end`: after a node that hangs, it asks one more.
            if clock.monotonic() >= end and (asked != 1 or self._seconds is not None):
                if failed:
                    trouble.add_note(failed)  # not all that are known, of which most may be well
                break
            left = self._left(end)
            try:
                with self._pool(address).sent([("CLUSTER", "SLOTS")], left) as read:
                    [reply] = read()
            except _UNANSWERED as error:
                if not self._is_late(left):
                    self._note_silent(address, error)
                # One that refuses the login or the certificate says more than one that is away.
                if asked == 0 or not isinstance(error.__context__, ConnectionRefusedError):
                    trouble, failed = error, f"{address[0]}:{address[1]}"
                continue
            if isinstance(reply, Exception):
                trouble = exceptions.ConnectionError(f"{address[0]}:{address[1]} is not a node of a cluster: {reply}")
                continue
            self._primaries = {
                slot: (primary[0].decode() if primary[0] else address[0], int(primary[1]))
                for first, last, primary, *_ in reply
                for slot in range(first, last + 1)
            }
            return self._primaries
        raise trouble

    def _pool(self, address: NodeAddress) -> RedisConnections:
        if (pool := self._pools.get(address)) is not None:
            return pool
        with self._lock:
            if (pool := self._pools.get(address)) is None:
                url = self._servers.url_of(*address)
                pool = self._pools[address] = RedisConnections(url, call_deadline=self._seconds, shared=self._deadline)
                if self._closed:
                    pool.close()
            return pool
