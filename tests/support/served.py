"""What a running mirror serves: its metrics, read by a parser that is not ours, and its health."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["health_of", "metric", "page", "task_partitions"]

_TIMEOUT_S = 10.0


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
