"""What a trial needs of its machine. A run that lacks some of it fails, unless it is asked to do
without: a fault that is quietly left out proves nothing."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from tests.support.chaos.network import Network
from tests.support.chaos.schedule import NEEDS, Need

__all__ = ["asked_without", "faketime", "missing", "sentence"]

VARIABLE = "FAULT_WITHOUT"
_FAKETIME = (
    Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"),
)


def faketime() -> Path | None:
    """libfaketime, where it is installed: a process preloaded with it has the clock we want."""
    return next((path for path in _FAKETIME if path.exists()), None)


def asked_without() -> frozenset[Need]:
    """The faults that `FAULT_WITHOUT` leaves out. Raises `ValueError` for one that is not known."""
    asked = frozenset(filter(None, os.environ.get(VARIABLE, "").replace(" ", "").split(",")))
    if unknown := asked - NEEDS.keys():
        raise ValueError(
            f"{VARIABLE} names {', '.join(sorted(unknown))}; it may name {', '.join(NEEDS)}"
        )
    return asked


def missing(without: Collection[Need] = ()) -> dict[Need, str]:
    """What this machine lacks of what is not left out, with the reason."""
    found: dict[Need, str] = {}
    if faketime() is None:
        found["clock"] = "wrong clocks need libfaketime (apt-get install libfaketime)"
    if not Network.allowed():
        found["links"] = (
            "cut and rough links need root and network namespaces (apt-get install iproute2)"
        )
    if os.geteuid() != 0:
        found["disks"] = "full disks need root, to mount small ones"
    return {need: reason for need, reason in found.items() if need not in without}


def sentence(lacking: dict[Need, str]) -> str:
    """What is missing, and what to do."""
    return (
        f"This machine does not allow all faults: {'; '.join(lacking.values())}. Provide that, or "
        f"leave these faults out with {VARIABLE}={','.join(lacking)}."
    )
