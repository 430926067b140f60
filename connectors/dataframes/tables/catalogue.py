"""Maps each table to the class that reads it. A class is imported when its table is read, because
every read starts Python processes, and most tables need either clients of Kafka or of a
database."""

from __future__ import annotations

from typing import cast

from connectors.dataframes.schemas import SCHEMAS
from connectors.dataframes.tables import GrowingTable, Table

__all__ = ["growing_table", "table"]

_HISTORY = {"ranges": "mirror_ranges", "lag_history": "mirror_lags", "events": "mirror_events"}


def table(name: str) -> Table:
    """Return what reads this table of `SCHEMAS`."""
    if name in _HISTORY:
        from connectors.dataframes.tables.history import HistoryTable

        return HistoryTable(_HISTORY[name], SCHEMAS[name].columns.names)
    if name == "lag":
        from connectors.dataframes.tables.lag import LagTable

        return LagTable()
    if name == "groups":
        from connectors.dataframes.tables.groups import GroupTable

        return GroupTable()
    if name == "audit":
        from connectors.dataframes.tables.audit import AuditTable

        return AuditTable()
    if name == "offset_map":
        from connectors.dataframes.tables.offset_map import OffsetMapTable

        return OffsetMapTable()
    from connectors.dataframes.tables import topics

    of_topics: dict[str, type[topics.RecordTable]] = {
        "offset_syncs": topics.OffsetSyncTable,
        "checkpoints": topics.CheckpointTable,
        "heartbeats": topics.HeartbeatTable,
    }
    return of_topics[name]()


def growing_table(name: str) -> GrowingTable:
    """Return what streams this table, which `SCHEMAS` says can be."""
    return cast(GrowingTable, table(name))
