"""Executors and the driver mean the same columns."""

from __future__ import annotations

from connectors.mirror.spark.copy.executor import FIGURES, ROW, CopyFlow
from connectors.mirror.spark.copy.shards import SHARD_ROWS


def test_rows_have_the_columns_of_their_table() -> None:
    assert list(ROW) == SHARD_ROWS.names
    assert set(FIGURES) < set(ROW)


def test_a_flow_shows_nothing_of_its_clients() -> None:
    flow = CopyFlow({"name": "a"}, {"ssl.key.password": "secret-1"}, {"sasl": "secret-2"})
    other = CopyFlow({"name": "a"}, {"ssl.key.password": "secret-3"}, {"sasl": "secret-2"})
    assert flow.key() != other.key()
    assert "secret" not in repr(flow) + flow.key()
