"""The MBeans of Java's Kafka Connect 4.3.1 (tests/golden/connect_metrics), as samples of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

from connect.metrics.registry import MetricSample, MetricValue

__all__ = ["attributes_of", "java_samples"]

_MBEANS = Path(__file__).parents[2] / "golden" / "connect_metrics" / "mbeans.json"
_TAG = re.compile(r'([\w-]+)=("[^"]*"|[^,]*)')


def java_samples(run: str = "at least once") -> list[MetricSample]:
    """What a worker showed, with 0 for every number. `run`: `at least once` or `exactly once`, for
    its sources."""
    samples = []
    for name, attributes in json.loads(_MBEANS.read_text())[run].items():
        tags = {key: value.strip('"') for key, value in _TAG.findall(name.partition(":")[2])}
        values: dict[str, MetricValue] = {
            attribute: 0.0 if text is None else text for attribute, text in attributes.items()
        }
        samples.append(MetricSample(tags.pop("type"), tags, values))
    return samples


def attributes_of(group: str, *tags: str, run: str = "at least once") -> set[str]:
    """The attributes of the MBeans of a group that have exactly these tags."""
    found: set[str] = set()
    for sample in java_samples(run):
        if sample.group == group and set(sample.tags) == set(tags):
            found |= sample.values.keys()
    assert found, f"no MBean {group} with {tags}"
    return found
