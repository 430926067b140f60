"""Results of Spark as Arrow tables, without leaving anything open.

`DataFrame.toArrow` does the same, but leaves its socket to the garbage collector.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.util import local_connect_and_auth

__all__ = ["collect"]


def collect(frame: DataFrame) -> pa.Table:
    """Run the query; all its rows, in their order. Raises what Spark raises."""
    port, secret, server = frame._jdf.collectAsArrowToPython()
    try:
        stream, connection = local_connect_and_auth(port, secret)
        with connection, stream:
            # That of connecting; a query may take long, and ends this when it is cancelled.
            connection.settimeout(None)
            # The batches as they arrive, and at last in which order they belong.
            *batches, order = ArrowCollectSerializer().load_stream(stream)  # type: ignore[no-untyped-call]
    finally:
        server.getResult()  # raises what made the query fail
    schema = to_arrow_schema(frame.schema)
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches([batches[index] for index in order]).cast(schema)
