"""Fixtures of tests that run the mirror as a user does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease


@pytest.fixture
def listener() -> Iterator[str]:
    """An address for `metrics.listener` that nobody else takes."""
    lease = PortLease(cache_directory() / "ports")
    try:
        yield f"http://{LOOPBACK}:{lease.port}"
    finally:
        lease.close()
