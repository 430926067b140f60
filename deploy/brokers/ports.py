"""Leases loopback ports that stay reserved even while nothing listens on them.

A broker that is killed and restarted must find its port free. Two measures protect it:

* Ports are below the kernel's range for outgoing connections. Otherwise a client that keeps
  retrying to connect to the port could get it as its own local port.
* A lease holds a lock file per port, so that other clusters of the same user do not use it.

Another program may still bind a port before the broker does. The first start of a cluster is then
retried with other ports.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from pathlib import Path

from deploy.brokers.errors import DeployError

__all__ = ["LOOPBACK", "PortLease"]

LOOPBACK = "127.0.0.1"
_LOWEST = 12_000
_DEFAULT_OUTGOING_LOW = (
    32_768  # Linux's default. On other systems (macOS) the range starts at 49152.
)
_ATTEMPTS = 500


def _outgoing_low() -> int:
    """Return the first port of the kernel's range for outgoing connections."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    except OSError:
        return _DEFAULT_OUTGOING_LOW
    low = int(text.split()[0])
    # If nearly every port is in the range, no port below it is free, so accept the risk.
    return low if low > _LOWEST + 2 * _ATTEMPTS else _DEFAULT_OUTGOING_LOW


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class PortLease:
    """One port, held from construction to `close`. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        """Lease a free port. `directory`: its lock files, shared by all clusters of a user."""
        directory.mkdir(parents=True, exist_ok=True)
        high = _outgoing_low()
        for _ in range(_ATTEMPTS):
            port = random.randrange(_LOWEST, high)
            descriptor = os.open(directory / f"{port}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            if _free(port):
                self.port = port
                self._descriptor: int | None = descriptor
                return
            os.close(descriptor)
        raise DeployError(
            f"No free port between {_LOWEST} and {high} on {LOOPBACK} after {_ATTEMPTS} attempts"
        )

    def close(self) -> None:
        """Release the port. May be called repeatedly. The empty lock file is kept, because another
        process may have opened it just now."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
