"""A rough link for one host of a trial: frames are lost, come late and so out of order, or come
twice.

A process between two devices that passes Ethernet frames on. It stands in for `tc netem`, which
many kernels are built without, and needs nothing but raw sockets. This module is also the program
of that process:

    python -m tests.support.chaos.rough_link DEVICE DEVICE SEED LOSS TWICE LATE_S
"""

from __future__ import annotations

import heapq
import random
import select
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Roughness", "main"]

_ALL_PROTOCOLS = 0x0003  # ETH_P_ALL
_SOL_PACKET, _PACKET_VNET_HDR = 263, 15
_OUTGOING = 4  # PACKET_OUTGOING
_FRAME_BYTES = 10 + 18 + 65_536
"""A virtio_net_hdr, which keeps segmentation and checksums to the kernel, and the largest frame."""
_BUFFER_BYTES = 8 << 20
_IDLE_S = 1.0


@dataclass(frozen=True, slots=True)
class Roughness:
    """`loss`, `twice`: how many frames of one. `late_s`: each frame is late by up to that."""

    loss: float = 0.0
    twice: float = 0.0
    late_s: float = 0.0

    def arguments(self) -> list[str]:
        return [str(self.loss), str(self.twice), str(self.late_s)]


def _open(device: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    opened.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        opened.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    opened.bind((device, _ALL_PROTOCOLS))
    opened.setblocking(False)
    return opened


class _Link:
    def __init__(self, ends: tuple[socket.socket, socket.socket], how: Roughness, seed: str):
        self._ends = ends
        self._how = how
        self._draw = random.Random(seed)
        self._waiting: list[tuple[float, int, bytes, socket.socket]] = []
        self._count = 0

    def run(self) -> None:
        """Until the process is killed."""
        one, other = self._ends
        while True:
            due = self._waiting[0][0] - time.monotonic() if self._waiting else _IDLE_S
            ready, _, _ = select.select(self._ends, [], [], max(0.0, due))
            for end in ready:
                self._take(end, other if end is one else one)
            self._pass_on()

    def _take(self, end: socket.socket, to: socket.socket) -> None:
        while True:
            try:
                frame, address = end.recvfrom(_FRAME_BYTES)
            except BlockingIOError:
                return
            if address[2] == _OUTGOING or self._draw.random() < self._how.loss:
                continue
            for _ in range(2 if self._draw.random() < self._how.twice else 1):
                self._count += 1
                due = time.monotonic() + self._draw.uniform(0.0, self._how.late_s)
                heapq.heappush(self._waiting, (due, self._count, frame, to))

    def _pass_on(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, frame, to = heapq.heappop(self._waiting)
            try:
                to.send(frame)
            except OSError:
                continue  # no room: one more that is lost


def main(arguments: Sequence[str]) -> None:
    one, other, seed, *numbers = arguments
    how = Roughness(*map(float, numbers))
    link = _Link((_open(one), _open(other)), how, seed)
    print("ready", flush=True)
    link.run()


if __name__ == "__main__":
    main(sys.argv[1:])
