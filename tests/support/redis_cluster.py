"""A Redis Cluster on loopback: primaries, a replica of each if wanted, slots that move and primaries that die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from redis import exceptions

from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.slots import SLOTS, slot_of
from tests.support.redis_server import RedisServer, free_port
from tests.support.waiting import wait_until

SHORT_MS = 1_000  # of silence after which the others give a node up; 15 s by default
PATIENT_MS = 60_000  # the same until a test says so: one that it suspends, or that a busy machine holds up, is kept


class RedisCluster:
    """Nodes with the slots shared out evenly among the primaries. `replicas` of each primary take over when it dies."""

    def __init__(self, folder: Path, *extra: str, primaries: int = 3, replicas: int = 0) -> None:
        self.nodes: list[RedisServer] = []
        with ExitStack() as stack:
            self._stack = stack
            self._form(folder, extra, primaries, replicas)
            self._stack = stack.pop_all()

    def _form(self, folder: Path, extra: Sequence[str], primaries: int, replicas: int) -> None:
        for number in range(primaries * (1 + replicas)):
            place = folder / f"node-{number}"
            place.mkdir(parents=True)
            self.nodes.append(self._stack.enter_context(_start(place, extra)))
        self.primaries = self.nodes[:primaries]
        self.clients = {node.port: Database(node.url) for node in self.nodes}
        self._share_slots()
        self._join()
        for number, replica in enumerate(self.nodes[primaries:]):
            self.client(replica).command("CLUSTER", "REPLICATE", self.id_of(self.nodes[number % primaries]))
        self.wait_until_serving()
        self.give_up_after(PATIENT_MS)  # only now: with it, a cluster that forms waits for seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients.values():
            client.close()
        self._stack.close()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def give_up_after(self, milliseconds: int) -> None:
        """Have the nodes give up one that has been silent for so long; then its replica takes over, if it has one."""
        for node in self.nodes:
            if node.running:
                self.client(node).command("CONFIG", "SET", "cluster-node-timeout", milliseconds)

    def client(self, node: RedisServer) -> Database:
        """A client of one node, which follows no redirection."""
        return self.clients[node.port]

    def id_of(self, node: RedisServer) -> str:
        return str(self.client(node).command("CLUSTER", "MYID").decode())

    def owner(self, slot: int) -> RedisServer:
        """The primary of a slot, as the first living node knows it."""
        living = next(node for node in self.nodes if node.running)
        for first, last, (_, port, *_), *_ in self.client(living).command("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError(f"nobody serves slot {slot}")

    def teams_on(self, node: RedisServer) -> Iterator[str]:
        """Yield names of teams whose own key this primary has."""
        names = (f"team-{number}" for number in range(1_000))
        return (name for name in names if self.owner(slot_of(Layout(name, 1).shard(0).key("team"))) is node)

    def begin_move(self, slot: int, target: RedisServer) -> RedisServer:
        """Let a slot's keys move: the target is importing and its owner, which is returned, is migrating."""
        source = self.owner(slot)
        self.client(target).command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        self.client(source).command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    def move_keys(self, slot: int, source: RedisServer, target: RedisServer) -> int:
        """Move the keys that a slot has, one by one; return how many."""
        moved = 0
        while keys := self.client(source).command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            for key in keys:
                self.client(source).command("MIGRATE", "127.0.0.1", target.port, key, 0, 5_000)
                moved += 1
        return moved

    def end_move(self, slot: int, target: RedisServer) -> None:
        """Give the slot to its new owner, and wait until every node knows of it by that one's epoch.

        Two moves within a second gave both owners the same epoch, and then each of two nodes named the other.
        """
        for node in (target, *(other for other in self.nodes if other is not target and other.running)):
            if b"role:master" in self.client(node).command("INFO", "replication"):
                self.client(node).command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))
        wait_until(lambda: len({self._primaries_seen_by(node) for node in self.nodes if node.running}) == 1, "one view")

    def _primaries_seen_by(self, node: RedisServer) -> frozenset[tuple[bytes, ...]]:
        """The id, the epoch and the slots of each primary, as a node sees them."""
        lines = [line.split() for line in self.client(node).command("CLUSTER", "NODES").splitlines()]
        return frozenset((line[0], line[6], *line[8:]) for line in lines if b"master" in line[2])

    def move(self, slot: int, target: RedisServer) -> None:
        """Move a slot, again if a client creates a key between."""
        source = self.begin_move(slot, target)
        self.move_keys(slot, source, target)
        self.end_move(slot, target)

    def flush(self) -> None:
        """Empty every primary."""
        for node in self.nodes:
            if b"role:master" in self.client(node).command("INFO", "replication"):
                self.client(node).command("FLUSHALL")

    def wait_until_serving(self) -> None:
        """Wait until every living node sees a whole cluster, and every replica is in step."""
        wait_until(lambda: all(map(self._serves, self.nodes)), "the cluster serves")

    def _serves(self, node: RedisServer) -> bool:
        if not node.running:
            return True
        info = self.client(node).command("CLUSTER", "INFO")
        there = f"cluster_known_nodes:{len(self.nodes)}\r".encode()
        link: Any = self.client(node).command("INFO", "replication")
        in_step = b"role:master" in link or b"master_link_status:up" in link
        # With `cluster-require-full-coverage no` the state is ok before a node has heard who serves the other slots.
        whole = b"cluster_state:ok" in info and f"cluster_slots_assigned:{SLOTS}\r".encode() in info
        return whole and there in info and in_step

    def _share_slots(self) -> None:
        share = SLOTS / len(self.primaries)
        for number, node in enumerate(self.primaries):
            first, last = round(number * share), round((number + 1) * share) - 1
            self.client(node).command("CLUSTER", "ADDSLOTSRANGE", first, last)
            # Two nodes that begin with one epoch settle by themselves which is right, after seconds.
            self.client(node).command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)

    def _join(self) -> None:
        first = self.nodes[0]
        bus = int(self.client(first).command("CONFIG", "GET", "cluster-port")[1])

        def meet() -> bool:
            for node in self.nodes[1:]:  # again, since a node forgets a handshake that takes longer than a second
                if f":{first.port}@".encode() not in self.client(node).command("CLUSTER", "NODES"):
                    self.client(node).command("CLUSTER", "MEET", "127.0.0.1", first.port, bus)
            return all(map(self._knows_all, self.nodes))

        wait_until(meet, "every node knows every other")

    def _knows_all(self, node: RedisServer) -> bool:
        try:
            nodes = self.client(node).command("CLUSTER", "NODES").decode()
        except exceptions.RedisError:
            return False
        return len(nodes.splitlines()) == len(self.nodes) and "handshake" not in nodes


def _start(place: Path, extra: Sequence[str]) -> RedisServer:
    return RedisServer.start(
        place, "--cluster-enabled", "yes", "--cluster-port", str(free_port()),
        "--cluster-node-timeout", str(SHORT_MS), "--repl-diskless-sync-delay", "0", *extra,
    )  # fmt: skip
