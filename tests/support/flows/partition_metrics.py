"""Partitions' metrics in a registry, as a task shows them."""

from __future__ import annotations

from connect.metrics.registry import MetricRegistry
from connectors.mirror.metrics import PartitionMetrics, TaskPartitionMetrics

__all__ = ["show"]


def show(registry: MetricRegistry, metrics: PartitionMetrics) -> None:
    """Show the metrics of one partition, under a task of its own."""
    task = TaskPartitionMetrics()
    task.add(("t", 0), metrics)
    task.register(registry, "m-0", "connector-producer-m-0")
