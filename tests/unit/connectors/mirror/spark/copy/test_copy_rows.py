"""Executors and the driver mean the same by a shard's result."""

from __future__ import annotations

from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.spark.copy.executor import CopyFlow, ShardResult

KEY, COPY = ("t", 0), ("A.t", 0)


def test_a_result_arrives_as_it_was_sent() -> None:
    wanted = SourceRange(KEY, COPY, 5, 90, "what is known")
    sent = ShardResult(
        [CopiedRange(KEY, COPY, 5, 105, 85)],
        [RangeProgress(wanted, 90, 1000, 3, "an error", 82, limited_by="a limit")],
        "why it ended",
        False,
        [Loss(LossKind.RETENTION, LossPolicy.REPORT, KEY, COPY, 5, 8, 5, 8)],
        [(80, 1.5), (2, 0.25)],
    )
    assert ShardResult.of_json(sent.to_json()) == sent
    again = ShardResult(error="Spark ran its task again", again=True)
    assert ShardResult.of_json(again.to_json()).again


def test_a_flow_shows_nothing_of_its_clients() -> None:
    flow = CopyFlow({"name": "a"}, {"ssl.key.password": "secret-1"}, {"sasl": "secret-2"})
    other = CopyFlow({"name": "a"}, {"ssl.key.password": "secret-3"}, {"sasl": "secret-2"})
    assert flow.key() != other.key()
    assert "secret" not in repr(flow) + flow.key()
