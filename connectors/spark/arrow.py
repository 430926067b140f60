"""Results of Spark as Arrow tables, without leaving anything open.

`DataFrame.toArrow` does the same, but leaves its socket to the garbage collector. PyArrow is loaded
by the first call: executors import this along with what they run, and have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.util import local_connect_and_auth

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arriving", "collect"]


def collect(frame: DataFrame) -> pa.Table:
    """Run the query; all its rows, in their order. Raises what Spark raises."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    batches: list[pa.RecordBatch] = []
    order: list[int] = []
    for batch in _batches(frame, order):
        batches.append(batch)
    schema = to_arrow_schema(frame.schema)
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches([batches[index] for index in order]).cast(schema)


def arriving(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Run the query; its rows as tasks end, in no order of tasks. Raises what Spark raises, at
    last. Whoever does not take all has to cancel the query."""
    return _batches(frame, [])


def _batches(frame: DataFrame, order: list[int]) -> Iterator[pa.RecordBatch]:
    """The batches as they arrive; `order` then has which of them is the first, the second, ..."""
    from pyspark.sql.pandas.serializers import ArrowCollectSerializer

    port, secret, server = frame._jdf.collectAsArrowToPython()
    whole = True
    try:
        stream, connection = local_connect_and_auth(port, secret)
        with connection, stream:
            # That of connecting; a query may take long, and ends this when it is cancelled.
            connection.settimeout(None)
            for item in ArrowCollectSerializer().load_stream(stream):  # type: ignore[no-untyped-call]
                if isinstance(item, list):
                    order += item
                else:
                    yield item
    except GeneratorExit:
        whole = False
        raise
    finally:
        if whole:
            server.getResult()  # raises what made the query fail
