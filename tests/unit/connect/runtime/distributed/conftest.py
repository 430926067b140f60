"""The herder that most tests here drive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.workers.driven_herder import Rig, herder_rig
from tests.unit.connect.runtime.distributed.steered import Steered, Told


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A worker that is alone in its group, and leads it."""
    Steered.reset()
    with herder_rig(Steered, task_shutdown_graceful_timeout_ms="500") as opened:
        yield opened.start().await_ready()
        Told.release.set()
