"""The location of a node: loopback, or a network namespace with its own address."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.brokers.ports import LOOPBACK

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """`host`: the address that a node binds and tells clients. `prefix`: the words that run a
    command there, such as `ip netns exec NAME`."""

    host: str = LOOPBACK
    prefix: tuple[str, ...] = ()
