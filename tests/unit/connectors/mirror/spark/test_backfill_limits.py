"""Pieces of a backfill on a Spark Connect server, which may run them after all hope."""

from __future__ import annotations

import time

import pytest

from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.spark.backfill import remote_limits
from connectors.mirror.spark.copy import executor
from connectors.mirror.spark.copy.executor import CopyFlow, ShardLimits, ShardResult, shard_copier

LIMITS = ShardLimits(30.0, 10.0, once=True)
RANGE = SourceRange(("t", 0), ("u", 0), 0, 1)


def test_a_task_begins_soon_and_a_second_run_waits_for_the_first() -> None:
    assert remote_limits(LIMITS, 1000.0, speculates=False) == LIMITS._replace(not_after=1030.0)
    beside = remote_limits(LIMITS, 1000.0, speculates=True)
    assert beside == LIMITS._replace(not_after=1030.0, again_s=22.0)


def test_a_task_that_begins_too_late_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[object] = []

    def run_shard(*arguments: object) -> ShardResult:
        copied.append(arguments)
        return ShardResult()

    monkeypatch.setattr(executor, "run_shard", run_shard)
    flow = CopyFlow({}, {}, {})
    late = shard_copier(flow, [RANGE], LIMITS._replace(not_after=time.time() - 1.0))
    result = ShardResult.of_json(late(0))
    assert result.error is not None
    assert result.error.startswith("Spark began its task too late: give the server more executors")
    assert not result.again
    assert not copied
    in_time = shard_copier(flow, [RANGE], LIMITS._replace(not_after=time.time() + 60.0))
    assert ShardResult.of_json(in_time(0)).error is None
    assert len(copied) == 1
