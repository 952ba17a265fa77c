"""A cable that loses and delays packets: `python -m tests.support.lossy_cable ONE OTHER LOSS DELAY_MS`.

Hands Ethernet frames on between two interfaces of its network namespace, in both directions, until its standard input
ends, and prints how many it has lost and handed on. The delay of a frame is random, up to twice the one given, so that
frames overtake each other as they do on the internet. It stands for the kernel's `netem`, which is a module that the
kernels of many virtual machines have not.
"""

from __future__ import annotations

import heapq
import random
import select
import socket
import sys
import time
from typing import Final

EVERY_PROTOCOL: Final = 3
SOL_PACKET, PACKET_VNET_HDR = 263, 15
"""Frames come with a header that says which checksums and segments the kernel has left to do, and go out with it."""
LARGEST: Final = 1 << 17


def _open(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    opened.bind((interface, EVERY_PROTOCOL))
    return opened


def main(one: str, other: str, loss: float, delay_ms: float) -> None:
    """Hand on until nobody holds the other end of the standard input."""
    dice = random.Random(7)
    ends = _open(one), _open(other)
    waiting: list[tuple[float, int, socket.socket, bytes]] = []
    lost = passed = 0
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([*ends, sys.stdin], [], [], timeout)
        if sys.stdin in ready:
            break
        for end in (each for each in ends if each in ready):
            frame, about = end.recvfrom(LARGEST)
            if about[2] == socket.PACKET_OUTGOING:
                continue
            if dice.random() < loss:
                lost += 1
                continue
            passed += 1
            due = time.monotonic() + dice.uniform(0, 2 * delay_ms) / 1000
            heapq.heappush(waiting, (due, passed, ends[1] if end is ends[0] else ends[0], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            *_, to, frame = heapq.heappop(waiting)
            to.send(frame)
    sys.stdout.write(f"{lost} {passed}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
