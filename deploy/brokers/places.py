"""The location of a node: loopback, or a network namespace with its own address."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.brokers.ports import LOOPBACK

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """`host`: the address that a node binds and advertises. `prefix`: the words before a command to
    run it there, such as `ip netns exec NAME`."""

    host: str = LOOPBACK
    prefix: tuple[str, ...] = ()
