"""The tables of one flow as DataFrames and SQL views, on top of the data source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import DataFrame, SparkSession

from connectors.dataframes.data_source import FORMAT
from connectors.dataframes.options import CONFIG, FLOW, TABLE, table_name
from connectors.dataframes.registration import register
from connectors.dataframes.schemas import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

__all__ = ["MirrorFrames", "open_frames"]


class MirrorFrames:
    """The tables of one flow. Any thread that may use the session may use them."""

    def __init__(
        self, session: SparkSession | ConnectSession, config: str | Path, flow: str | None = None
    ) -> None:
        """`config`: an mm2.properties on the Spark driver's host. `flow`: `A->B`, or none for its
        only flow. Registers the data source."""
        register(session)
        self.session: Any = session
        self._options = {CONFIG: str(config)} | ({} if flow is None else {FLOW: flow})

    def table(self, name: str, **options: str) -> DataFrame:
        """Return a table of `SCHEMAS`, read anew whenever the frame is evaluated. Raises
        `ConfigError` for a wrong name or option."""
        return self._loaded(self.session.read, name, options)

    def stream(self, name: str) -> DataFrame:
        """Return a table that grows as a streaming frame."""
        return self._loaded(self.session.readStream, name, {})

    def create_views(self, prefix: str = "") -> list[str]:
        """Create a temporary view of each table, for SQL. Returns their names."""
        names = {f"{prefix}{name}": name for name in SCHEMAS}
        for view, name in names.items():
            self.table(name).createOrReplaceTempView(view)
        return list(names)

    def _loaded(self, reader: Any, name: str, more: dict[str, str]) -> DataFrame:
        options = {**self._options, **more}
        table_name({TABLE: name, **options})
        frame: DataFrame = reader.format(FORMAT).options(**options).load(name)
        return frame


@contextmanager
def open_frames(path: str | Path, flow: str | None = None) -> Iterator[MirrorFrames]:
    """Yield the frames of the flow `A->B` of an mm2.properties file (without a name: of its only
    flow).

    Starts a Spark session on the file's `spark.master` and ends it with the block. Raises
    `ConfigError`, and `SparkUnavailable` if there is no session within five minutes.
    """
    # Imported here, because executors import this module and need neither.
    from connectors.mirrormaker.flow_lookup import named_flow
    from connectors.spark.program_session import own_session
    from connectors.spark.properties import refuse_remote

    chosen = named_flow(Path(path), flow)
    refuse_remote(
        "open_frames",
        chosen.properties,
        "open the session with PySpark, and give it to MirrorFrames, for which the server needs "
        "this program's dependencies and the file",
    )
    with own_session("frames", chosen.properties, frames=True) as session:
        yield MirrorFrames(session, Path(path).resolve(), chosen.name)
