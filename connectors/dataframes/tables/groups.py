"""Consumer groups of a flow: where each stands on the source, and where it would go on at the
target. While the source does not answer, the rows come from the last checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.datasource import InputPartition

from connect.clients.groups.consumer_groups import ConsumerGroups
from connect.clock import Deadline
from connect.errors import ConnectError, RetriableError
from connectors.dataframes.options import FrameFlow
from connectors.dataframes.tables import Row
from connectors.mirror.config.clients import checkpoint_source_admin
from connectors.mirror.failover import MoveClusters, plan_move
from connectors.mirror.filters import DefaultGroupFilter, group_filter
from connectors.mirror.inspect.cluster_queries import REACH_S

__all__ = ["GroupTable"]

_SLICE_GROUPS = 500
"""Groups of one slice. Each slice reads the flow's offset map."""

_READ_S = 120.0


@dataclass(frozen=True)
class GroupSlice(InputPartition):
    """Groups of the source; None: all groups that have checkpoints."""

    groups: tuple[str, ...] | None


class GroupTable:
    def slices(self, flow: FrameFlow) -> Sequence[GroupSlice]:
        try:
            with closing(ConsumerGroups(checkpoint_source_admin(flow.properties))) as source:
                groups = sorted(source.list_groups(Deadline(REACH_S)))
                _refuse_hidden(source, flow, groups)
        except RetriableError:
            # The source does not answer: this is when people fail over.
            return [GroupSlice(None)]
        starts = range(0, len(groups), _SLICE_GROUPS)
        return [GroupSlice(tuple(groups[at : at + _SLICE_GROUPS])) for at in starts]

    def rows(self, flow: FrameFlow, piece: GroupSlice) -> Iterator[Row]:
        live = piece.groups is not None
        pattern = re.compile("|".join(map(re.escape, piece.groups or ())) if live else ".*", re.S)
        clusters = MoveClusters(flow.properties, None)
        plan = plan_move(clusters, pattern, Deadline(_READ_S), live=live)
        for row in plan.offsets:
            yield (
                row.group,
                row.topic,
                row.partition,
                row.new_topic,
                row.offset,
                row.new_offset,
                row.has,
                row.end,
                row.again,
                row.new_offset is not None,
                live,
                None,
            )
        unknown = (None,) * 8
        for group, error in plan.unreadable.items():
            yield group, *unknown, False, live, error


def _refuse_hidden(source: ConsumerGroups, flow: FrameFlow, listed: Collection[str]) -> None:
    """Raise the brokers' refusal of a group that the flow names in full and that the user may not
    describe. A listing leaves such a group out."""
    of_flow = group_filter(flow.properties)
    if isinstance(of_flow, DefaultGroupFilter):
        named = set(of_flow.include.literals()) - set(listed)
        for found in source.committed(sorted(named), Deadline(REACH_S)).values():
            if isinstance(found, ConnectError):
                raise found
