"""Returns results of Spark queries as Arrow tables and closes all resources; runs Python functions
of Arrow batches on executors.

`DataFrame.toArrow` leaves its socket to the garbage collector, and `DataFrame.mapInArrow` wants
pandas, which neither of them uses. With Spark Connect there is no such socket. PyArrow is imported
by the first call, because executors import this module and do not need PyArrow.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType, local_connect_and_auth

from connectors.spark.drivers.session_kind import is_remote

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arriving", "collect", "map_batches"]


def map_batches(
    frame: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Return the rows that `work` yields for the rows of each partition. `schema`: the schema of
    the returned rows, as DDL."""
    kind: Any = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    column: Any = UserDefinedFunction(work, returnType=schema, evalType=kind)(
        *[frame[name] for name in frame.columns]
    )
    java: Any = frame._jdf
    return DataFrame(java.mapInArrow(column._jc, False, None), frame.sparkSession)


def collect(frame: DataFrame) -> pa.Table:
    """Run the query and return all rows in order. Raises Spark's errors."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    if is_remote(frame):
        return frame.toArrow()
    batches: list[pa.RecordBatch] = []
    order: list[int] = []
    for batch in _batches(frame, order):
        batches.append(batch)
    schema = to_arrow_schema(frame.schema)
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches([batches[index] for index in order]).cast(schema)


def arriving(frame: DataFrame) -> Generator[pa.RecordBatch, None, None]:
    """Run the query and yield rows as tasks end, in any order. At the end, raises Spark's errors.

    A caller that stops early must cancel the query.
    """
    return _remote_batches(frame) if is_remote(frame) else _batches(frame, [])


def _remote_batches(frame: Any) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches as the server sends them: in the order of the partitions."""
    client = frame.sparkSession.client
    for arrived in client.to_table_as_iterator(frame._plan.to_proto(client), {}):
        if hasattr(arrived, "to_batches"):  # The schema comes, too.
            yield from arrived.to_batches()


def _batches(frame: DataFrame, order: list[int]) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches as they arrive, and append the position of each one to `order`."""
    from pyspark.sql.pandas.serializers import ArrowCollectSerializer

    port, secret, server = frame._jdf.collectAsArrowToPython()
    whole = True
    try:
        stream, connection = local_connect_and_auth(port, secret)
        with connection, stream:
            # Only a timeout for connecting. A query may take long, and cancelling it ends the read.
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
            server.getResult()  # Raises the error that made the query fail.
