"""A link with a long way, for tests and benchmarks: a host in a network namespace of its own behind
two tunnel devices, between which a process of ours holds every IP packet back.

    with LongLink(round_trip_s=0.1) as link:
        KafkaCluster(places={1: link.place})   # reached from here over the link

Real TCP runs over it, with its windows; nothing is lost. `stall` stops all packets. Needs the right
to make network devices (`LongLink.allowed`). This module is also the program of that process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from connect.errors import ConnectError
from deploy.brokers.places import Place

__all__ = ["LongLink", "main"]

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_MTU = 65_000
"""Large, so that few packets pass through Python: the way is long here, not its pieces small."""
_QUEUE = 20_000
_STDIN = 0
_TIMEOUT_S = 20.0
_BUFFERS = "4096 131072 67108864"
"""tcp_rmem and tcp_wmem of the far host: room for bandwidth x delay."""


def _run(*words: str, check: bool = True) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if check and done.returncode:
        raise ConnectError(f"{' '.join(words)}: {done.stderr.strip()}")


class LongLink:
    """See the module. One owner."""

    def __init__(self, round_trip_s: float) -> None:
        self._round_trip_s = round_trip_s
        number = os.getpid()
        self._space, self._near, self._far = f"ll{number}", f"lln{number}", f"llf{number}"
        net = f"10.{192 + number % 60}.{number // 60 % 250}"
        self._near_address, self.address = f"{net}.1", f"{net}.2"
        self._process: subprocess.Popen[str] | None = None

    @staticmethod
    def allowed() -> bool:
        return (
            os.geteuid() == 0 and shutil.which("ip") is not None and os.path.exists("/dev/net/tun")
        )

    @property
    def place(self) -> Place:
        return Place(self.address, ("ip", "netns", "exec", self._space))

    def __enter__(self) -> Self:
        _run("ip", "netns", "add", self._space)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._near, self._far],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self.delay(self._round_trip_s)
        _run("ip", "link", "set", self._far, "netns", self._space)
        far = ("ip", "-n", self._space)
        for where, device, address in (
            (("ip",), self._near, self._near_address),
            (far, self._far, self.address),
        ):
            _run(*where, "addr", "add", f"{address}/24", "dev", device)
            up = ("mtu", str(_MTU), "txqueuelen", str(_QUEUE), "up")
            _run(*where, "link", "set", device, *up)
        _run(*far, "link", "set", "lo", "up")
        for name in ("tcp_rmem", "tcp_wmem"):
            _run(*self.place.prefix, "sysctl", "-qw", f"net.ipv4.{name}={_BUFFERS}")
        return self

    def delay(self, round_trip_s: float) -> None:
        """From now on."""
        self._tell(delay=round_trip_s / 2)

    def stall(self, *, on: bool) -> None:
        """Let no packet through, without a sound; or let them through again."""
        self._tell(stall=on)

    def _tell(self, **what: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.communicate(timeout=_TIMEOUT_S)
        _run("ip", "netns", "del", self._space, check=False)


def _open(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


class _Direction:
    """Packets from one device to the other, each `delay` later."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._held: deque[tuple[float, bytes]] = deque()

    def take(self, due: float, *, drop: bool) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = os.read(self._source, _MTU + 100)
                if not drop:
                    self._held.append((due, packet))

    def give(self, now: float) -> float | None:
        """Pass on what is due; when the next one is."""
        while self._held and self._held[0][0] <= now:
            with contextlib.suppress(OSError):  # a device that is not up yet
                os.write(self._target, self._held[0][1])
            self._held.popleft()
        return self._held[0][0] if self._held else None


def main(names: Sequence[str]) -> int:
    """Hold packets back between two devices until stdin ends."""
    near, far = (_open(name) for name in names)
    ways = {near: _Direction(near, far), far: _Direction(far, near)}
    delay, stalled = 0.0, False
    print("ready", flush=True)
    while True:
        dues = [due for way in ways.values() if (due := way.give(time.monotonic())) is not None]
        timeout = max(0.0, min(dues) - time.monotonic()) if dues else None
        readable, _, _ = select.select([*ways, _STDIN], [], [], timeout)
        for ready in readable:
            if ready != _STDIN:
                ways[ready].take(time.monotonic() + delay, drop=stalled)
                continue
            lines = os.read(_STDIN, 4096)
            if not lines:
                return 0
            for line in lines.splitlines():
                told = json.loads(line)
                delay, stalled = told.get("delay", delay), told.get("stall", stalled)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
