"""A network of its own for a trial: hosts in network namespaces on one bridge, whose links can be
cut, also in one direction, or made rough.

What is cut is lost without a sound, as on a broken line: neighbours' entries point to a hardware
address that nobody has, so packets leave and never arrive. Needs the right to make namespaces;
`Network.allowed` says whether we have it. A rough link is a process between a host and the bridge
(`rough_link.py`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from connect.errors import ConnectError
from deploy.brokers.places import Place
from tests.support.chaos.rough_link import Roughness

__all__ = ["DIRECTIONS", "Network"]

DIRECTIONS = ("both", "out", "in")
"""What a cut loses: everything, what the host sends, or what is sent to it."""

_NOWHERE = "02:00:00:00:00:01"
_BRIDGE = "02:00:00:00:00:02"
_TIMEOUT_S = 30.0
_OWN = re.compile(r"ft(\d+)-\w+")


def _ip(*words: str, check: bool = True) -> str:
    done = subprocess.run(
        ["ip", *words], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if check and done.returncode:
        raise ConnectError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """Named hosts, each with an address, that reach each other and this process.

    Cuts may come from several threads. What a process left that was killed, the next one clears
    away.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._bridge = f"ft{self._pid}"
        self._net = f"10.{64 + self._pid % 128}"
        self._addresses: dict[str, str] = {}
        self._devices: dict[str, str] = {}
        self._root = f"{self._net}.0.1"
        self._lock = threading.Lock()
        self._cuts: Counter[tuple[str | None, str]] = Counter()

    @staticmethod
    def allowed() -> bool:
        """Whether this machine lets us make networks."""
        if os.geteuid() != 0 or shutil.which("ip") is None:
            return False
        name = f"ft{os.getpid()}-probe"
        try:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        except ConnectError:
            return False
        finally:
            _ip("netns", "del", name, check=False)
        return True

    def __enter__(self) -> Self:
        self._clear_leftovers()
        # One without an address of its own has that of a port. When that one goes, it gets another
        # port's, and loses all its neighbours, cuts among them.
        _ip("link", "add", self._bridge, "address", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{self._root}/16", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, device in self._devices.items():
            # The kernel takes a namespace's devices away some time after it: the next network
            # would find one of the same name.
            _ip("link", "del", device, check=False)
            _ip("netns", "del", self._space(name), check=False)
        _ip("link", "del", self._bridge, check=False)

    def add(self, name: str) -> Place:
        """A new host."""
        number = len(self._addresses) + 1
        address = f"{self._net}.1.{number}"
        space, outside = self._space(name), f"ft{self._pid}-{number}"
        self._addresses[name] = address
        self._devices[name] = outside
        _ip("netns", "add", space)
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
        # This host must not answer for its own address on devices that are not the bridge.
        _ip("link", "set", outside, "master", self._bridge, "arp", "off", "up")
        _ip("-n", space, "addr", "add", f"{address}/16", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "link", "set", "lo", "up")
        return Place(address, ("ip", "netns", "exec", space))

    @property
    def hosts(self) -> list[str]:
        return list(self._addresses)

    @contextmanager
    def rough(self, name: str, how: Roughness, seed: str) -> Iterator[None]:
        """Frames of this host, in both directions, are treated so meanwhile. One at a time."""
        outside = self._devices[name]
        near, far = f"{outside}a", f"{outside}b"
        _ip("link", "add", near, "arp", "off", "type", "veth", "peer", "name", far)
        try:
            _ip("link", "set", near, "up")
            _ip("link", "set", far, "master", self._bridge, "arp", "off", "up")
            program = [sys.executable, "-m", "tests.support.chaos.rough_link"]
            command = [*program, outside, near, seed, *how.arguments()]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as relay:
                try:
                    assert relay.stdout is not None
                    if relay.stdout.readline() != b"ready\n":
                        raise ConnectError(f"the rough link of {name} did not begin")
                    _ip("link", "set", outside, "nomaster")
                    yield
                finally:
                    _ip("link", "set", outside, "master", self._bridge)
                    relay.kill()
        finally:
            _ip("link", "del", near, check=False)

    def cut(self, name: str, direction: str, peers: Iterable[str] | None = None) -> None:
        """Lose what `name` sends to, or gets from, `peers` (all others, this process included,
        where none are named). Cuts may overlap."""
        with self._lock:
            for line in self._lines(name, direction, peers):
                self._cuts[line] += 1
                if self._cuts[line] == 1:
                    self._set("replace", line, f"lladdr {_NOWHERE} nud permanent")

    def heal(self, name: str, direction: str, peers: Iterable[str] | None = None) -> None:
        """Undo a cut with the same words."""
        with self._lock:
            for line in self._lines(name, direction, peers):
                self._cuts[line] -= 1
                if not self._cuts[line]:
                    self._set("del", line, "")

    def _lines(
        self, name: str, direction: str, peers: Iterable[str] | None
    ) -> list[tuple[str | None, str]]:
        """(sender, address that it shall not reach); a sender of None is this process."""
        others: list[str | None] = [other for other in self._addresses if other != name]
        chosen = [*others, None] if peers is None else list(peers)
        found: list[tuple[str | None, str]] = []
        if direction in ("both", "out"):
            found += [(name, self._addresses[p] if p else self._root) for p in chosen]
        if direction in ("both", "in"):
            found += [(p, self._addresses[name]) for p in chosen]
        return found

    def _set(self, verb: str, line: tuple[str | None, str], how: str) -> None:
        sender, address = line
        where = [] if sender is None else ["-n", self._space(sender)]
        device = self._bridge if sender is None else "eth0"
        _ip(*where, "neigh", verb, address, "dev", device, *how.split())

    def _space(self, name: str) -> str:
        return f"ft{self._pid}-{name}"

    @staticmethod
    def _clear_leftovers() -> None:
        for found in _OWN.finditer(_ip("netns", "list")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(found[1]), 0)
                continue
            _ip("netns", "del", found[0], check=False)
            _ip("link", "del", f"ft{found[1]}", check=False)
