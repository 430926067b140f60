"""What a running mirror serves: its metrics, read by a parser that is not ours, and its health."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from connect.clock import SYSTEM_CLOCK
from tests.support.waiting import wait_until

__all__ = ["health_of", "metric", "page", "rebalances", "settled_rebalances", "task_partitions"]

_TIMEOUT_S = 30.0
_SETTLE_S = 60.0
_QUIET_S = 3.0


def page(listener: str, path: str) -> str:
    """The body of a page, whatever its status."""
    try:
        with urlopen(f"{listener}{path}", timeout=_TIMEOUT_S) as answer:
            body: bytes = answer.read()
    except HTTPError as error:
        with error:
            body = error.read()
    return body.decode()


def metric(listener: str, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
    """(labels, value) of each sample called `name`, of any family, that has these labels."""
    every = page(listener, "/metrics?family=A,B,C")
    return [
        (dict(sample.labels), float(sample.value))
        for family in text_string_to_metric_families(every)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def health_of(listener: str) -> dict[str, Any]:
    """The document of `/health`."""
    document: dict[str, Any] = json.loads(page(listener, "/health"))
    return document


def task_partitions(listener: str) -> list[list[str]]:
    """The source partitions of each task of the source connectors."""
    return [
        [partition["name"] for partition in task["partitions"]]
        for connector in health_of(listener)["connectors"]
        if connector["name"] == "MirrorSourceConnector"
        for task in connector["tasks"]
    ]


def rebalances(listener: str) -> list[tuple[dict[str, str], float]]:
    """The count of completed rebalances of each flow."""
    name = "kafka_connect_worker_rebalance_completed_rebalances_total"
    return sorted(metric(listener, name), key=str)


def settled_rebalances(listener: str) -> list[tuple[dict[str, str], float]]:
    """`rebalances` once the start of all connectors is over: each that commits its tasks lets the
    group rebalance, and the count has stayed for as long as none of them takes."""
    seen, since = rebalances(listener), SYSTEM_CLOCK.monotonic()

    def settled() -> bool:
        nonlocal seen, since
        found = rebalances(listener)
        if found != seen:
            seen, since = found, SYSTEM_CLOCK.monotonic()
        return bool(seen) and SYSTEM_CLOCK.monotonic() - since > _QUIET_S

    wait_until(settled, _SETTLE_S, "rebalances of the start to be over")
    return seen
