"""Slows down clients that guess passwords or tokens: waits that double with each failure.

Failures count by client address and by user name, both in tables of limited size. Pure, but for
its lock; safe to call from any thread.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict
from dataclasses import dataclass

from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["FailedLogins"]

_FREE = 5
"""Failures without a wait: people mistype, and scripts start before their secrets change."""
_LONGEST_ADDRESS_MS = 60_000
_LONGEST_USER_MS = 5_000
"""Shorter, because others could lock a user out by guessing in that name."""
_FORGET_MS = 15 * 60_000
_MOST = 4096
"""Entries of each table; the oldest makes room. One needs about 300 bytes."""


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_ms: int = 0


class FailedLogins:
    """The recent failures of a worker's listeners."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()
        self._users: OrderedDict[str, _Failures] = OrderedDict()

    @staticmethod
    def of_address(address: str) -> str:
        """Return what counts as one client: an IPv4 address, or the /64 of an IPv6 address, of
        which one machine has all addresses."""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return address
        if not isinstance(parsed, ipaddress.IPv6Address) or parsed.ipv4_mapped is not None:
            return address
        return str(ipaddress.IPv6Network((parsed, 64), strict=False))

    def wait_ms(self, address: str, user: str | None) -> int:
        """Return how long the next attempt must wait, in ms; 0: it may be made now."""
        now = int(self._clock.monotonic() * 1000)
        with self._lock:
            return max(
                _left(self._addresses.get(self.of_address(address)), now, _LONGEST_ADDRESS_MS),
                0 if user is None else _left(self._users.get(user), now, _LONGEST_USER_MS),
            )

    def failed(self, address: str, user: str | None) -> None:
        """Count a failure."""
        now = int(self._clock.monotonic() * 1000)
        with self._lock:
            _count(self._addresses, self.of_address(address), now)
            if user is not None:
                _count(self._users, user, now)

    def succeeded(self, address: str, user: str) -> None:
        """Forget the failures of the user, and of the address."""
        with self._lock:
            self._addresses.pop(self.of_address(address), None)
            self._users.pop(user, None)

    def __len__(self) -> int:
        """Return the number of entries in memory."""
        with self._lock:
            return len(self._addresses) + len(self._users)


def _left(failures: _Failures | None, now: int, longest_ms: int) -> int:
    if failures is None or failures.count < _FREE or now - failures.last_ms > _FORGET_MS:
        return 0
    wait = min(longest_ms, 1000 << min(failures.count - _FREE, 10))
    return max(0, failures.last_ms + wait - now)


def _count(table: OrderedDict[str, _Failures], key: str, now: int) -> None:
    failures = table.setdefault(key, _Failures())
    if now - failures.last_ms > _FORGET_MS:
        failures.count = 0
    failures.count += 1
    failures.last_ms = now
    table.move_to_end(key)
    if len(table) > _MOST:
        table.popitem(last=False)
