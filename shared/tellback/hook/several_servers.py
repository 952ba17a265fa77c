"""The hook's connection to a Redis Cluster, or to the primary that Sentinel names. Loaded for such URLs only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice
from typing import Any, Final, cast

from tellback import clock
from tellback.backoff import Backoff
from tellback.errors import ConfigurationError, Unavailable
from tellback.hook.resp import NOT_A_URL, RedisErrorReply, RespConnection, share_of_time
from tellback.state.script_calls import Arg, Command
from tellback.state.slots import slot_of_command
from tellback.urls import RedisServers, servers_of

REPEAT_SECONDS: Final = 2.0  # for which a call is repeated while its slot moves, as by every other client

BACKOFF: Final = Backoff(0.002, longest=0.02)

AT_ONCE: Final = 4  # redirections without a delay; a map that is out of date needs one

TRY_AGAIN: Final = "TRYAGAIN"
CLUSTER_DOWN: Final = "CLUSTERDOWN"

NodeAddress = tuple[str, int]


def open_several(url: str, deadline: float) -> RespConnection:
    """Connect to what the URL names.

    Raises:
        Unavailable: nobody can be reached in time.
        ConfigurationError: the URL lacks a part.
    """
    try:
        servers = servers_of(url)
    except ValueError as error:
        raise ConfigurationError(f"{NOT_A_URL}: {error}") from None
    assert servers is not None, "the caller asked `names_several`"
    if servers.kind == "cluster":
        return ClusterConnection(servers, deadline)
    return _connect_primary(servers, deadline)


def _connect_primary(servers: RedisServers, deadline: float) -> RespConnection:
    trouble = Unavailable("no Sentinel answers")
    for _, reply in _ask_each(servers, deadline, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", servers.master_name):
        if isinstance(reply, list):
            host, port = cast("list[bytes]", reply)
            return RespConnection(servers.url_of(host.decode(), int(port)), deadline)
        trouble = (
            reply if isinstance(reply, Unavailable) else Unavailable(f"unknown to Sentinel: {servers.master_name}")
        )
    raise trouble


def _ask_each(servers: RedisServers, deadline: float, *question: Arg) -> Iterator[tuple[RespConnection | None, Any]]:
    """Yield a connection to each server with its reply, or None with the error that came instead."""
    for number, node in enumerate(servers.nodes):
        try:
            # One that hangs, but accepts connections, gets its share of the time that is left.
            connection = RespConnection(node, share_of_time(deadline, len(servers.nodes) - number + 1))
            [reply] = connection.run_commands([question])
        except Unavailable as error:
            yield None, error
        else:
            connection.deadline = deadline
            yield connection, reply


class ClusterConnection(RespConnection):
    """Connections to the nodes of a cluster, one for each that a command turns out to need."""

    has_nodes = True

    def __init__(self, servers: RedisServers, deadline: float) -> None:
        """Connect to the first node that answers.

        Raises:
            Unavailable: none does in time.
        """
        self._servers = servers
        self.deadline = deadline
        self._owners: dict[int, NodeAddress] = {}
        self._others = cycle(servers.addresses)
        self._gone: dict[NodeAddress, Unavailable] = {}  # nodes that another one named, and that did not answer
        trouble = Unavailable("no node")
        for address, (node, reply) in zip(servers.addresses, _ask_each(servers, deadline, "PING"), strict=False):
            if node is not None and not isinstance(reply, Unavailable):
                self._first, self._nodes = address, {address: node}
                return
            trouble = reply
        raise trouble

    def run_commands(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies of several commands as one server would; MOVED and ASK are followed.

        An error stands in the place of the replies of a node that gave none within its share of the time.

        Raises:
            RedisErrorReply: a node refused the user.
        """
        replies: list[Any] = [None] * len(commands)
        waiting = {at: (self._owner(command), False) for at, command in enumerate(commands)}
        end = min(self.deadline, clock.monotonic() + REPEAT_SECONDS)
        for attempt, delay in enumerate(BACKOFF.delays()):
            addresses = list(dict.fromkeys(address for address, _ in waiting.values()))
            for number, address in enumerate(addresses):
                indexes = [at for at in waiting if waiting[at][0] == address]
                packets = [([("ASKING",)] if waiting[at][1] else []) + [commands[at]] for at in indexes]
                found = iter(
                    self._ask(address, list(chain(*packets)), share_of_time(self.deadline, len(addresses) - number))
                )
                for at, packet in zip(indexes, packets, strict=True):
                    replies[at] = [next(found) for _ in packet][-1]
            waiting = self._redirected(waiting, replies)
            if not waiting or clock.monotonic() + delay >= end:
                break
            if attempt >= AT_ONCE or any(str(replies[at]) in (TRY_AGAIN, CLUSTER_DOWN) for at in waiting):
                clock.sleep(delay)
        return replies

    def _ask(self, address: NodeAddress, commands: Sequence[Command], end: float) -> list[Any]:
        self.where = f"{address[0]}:{address[1]}"
        try:
            return self._node(address, end).run_commands(commands)
        except RedisErrorReply:
            raise
        except Unavailable as error:
            self._nodes.pop(address, None)  # a late reply must not be read as the reply to another command
            return [error] * len(commands)

    def _redirected(
        self, waiting: dict[int, tuple[NodeAddress, bool]], replies: list[Any]
    ) -> dict[int, tuple[NodeAddress, bool]]:
        """Return where to send again what was redirected, or refused while its slot moves.

        A node that imports a slot takes no notice of who has it since. If its source died, it goes on naming that one,
        and refuses all calls if the cluster is to serve all slots or none. So another node is asked.
        """
        again: dict[int, tuple[NodeAddress, bool]] = {}
        known_gone = set(self._gone)
        for at, (asked, asking) in waiting.items():
            reply = replies[at]
            if not isinstance(reply, RedisErrorReply):
                if isinstance(reply, Unavailable) and asked != self._first and asked not in known_gone:
                    self._gone[asked] = reply
                    if (another := self._another(self._first)) is not None:
                        again[at] = (another, False)
            elif reply.redirection:
                word, slot, place = reply.redirection.split(" ")[:3]
                host, _, port = place.rpartition(":")
                address = (host or asked[0], int(port))
                if address in self._gone:
                    replies[at] = self._gone[address]
                    continue
                if word == "MOVED":
                    self._owners[int(slot)] = address
                again[at] = (address, word == "ASK")
            elif str(reply) == CLUSTER_DOWN:
                again[at] = (self._another(asked) or asked, False)
            elif str(reply) == TRY_AGAIN:
                again[at] = (asked, asking)
        return again

    def _another(self, node: NodeAddress) -> NodeAddress | None:
        """Return the next node of the URL, other than this one, that has not been found to be gone."""
        others = islice(self._others, len(self._servers.addresses))
        return next((other for other in others if other != node and other not in self._gone), None)

    def _owner(self, command: Command) -> NodeAddress:
        slot = slot_of_command(command)
        return self._first if slot is None else self._owners.get(slot, self._first)

    def _node(self, address: NodeAddress, end: float) -> RespConnection:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = RespConnection(self._servers.url_of(*address), end)
        node.deadline = end
        return node
