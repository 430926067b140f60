"""Estimates the bytes per offset of a partition, so that ranges can be cut by bytes.

Fetches a little from the middle of the log. Only partitions that are long enough to be cut are
measured.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.partition_reader import PartitionReader
from connect.errors import ConnectError
from connectors.mirror.audit.auditor import Auditor
from connectors.mirror.audit.plan import PartitionFacts

__all__ = ["measured"]

_LOG = logging.getLogger(__name__)

MEASURED_FROM = 100_000
"""Partitions with fewer offsets than this are not measured."""

_SAMPLE_BYTES = 256 * 1024
_STALL_S = 10.0


def measured(
    source: Mapping[str, str], partitions: Collection[PartitionFacts]
) -> list[PartitionFacts]:
    """Return the facts with `offset_bytes` where a measurement is worthwhile and possible.
    `source`: Java consumer properties."""
    long = {each.source for each in partitions if _length(each) >= MEASURED_FROM}
    if not long:
        return list(partitions)
    with Auditor.link(source, {topic for topic, _ in long}) as linked:
        return [
            _measured(linked.link, each) if each.source in long else each for each in partitions
        ]


def _measured(link: ClusterLink, facts: PartitionFacts) -> PartitionFacts:
    middle = (facts.source_start + facts.source_end) // 2
    reader = PartitionReader(
        link,
        facts.source,
        middle,
        facts.source_end,
        fetch_bytes=_SAMPLE_BYTES,
        stall_s=_STALL_S,
    )
    try:
        headers = next(iter(reader)).headers
    except ConnectError as error:  # The measurement is only an estimate, so an error is not fatal.
        _LOG.info(
            "Cannot measure bytes per offset of %s-%d, ranges are cut by offsets instead: %s",
            *facts.source,
            error,
        )
        return facts
    finally:
        reader.close()
    first = headers[0].base_offset if headers[0].magic == 2 else middle
    offsets = headers[-1].next_offset - first
    return replace(facts, offset_bytes=sum(each.size for each in headers) / max(1, offsets))


def _length(facts: PartitionFacts) -> int:
    return facts.source_end - facts.source_start
