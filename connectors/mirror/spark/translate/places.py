"""Translates group offsets on Spark, given the tables of syncs and breaks. Both Spark translators
use it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset
from connectors.mirror.spark.tables import GROUP_OFFSETS, arrow_schema
from connectors.mirror.spark.translate.translate import translate
from connectors.spark.arrow import collect

__all__ = ["places_on_spark"]


def places_on_spark(
    session: SparkSession, syncs: DataFrame, breaks: DataFrame, offsets: Sequence[GroupOffset]
) -> list[Place | None]:
    """Translate each offset with SYNCS and BREAKS, in order; None if a translation is not known.
    Raises Spark's errors."""
    frame = session.createDataFrame(_table(offsets), GROUP_OFFSETS)
    found = collect(translate(session, syncs, breaks, frame))
    places: list[Place | None] = [None] * len(offsets)
    columns = (
        found[name].to_pylist() for name in ("group", "downstream", "exact", "behind", "loss")
    )
    for number, *place in zip(*columns, strict=True):
        places[int(number)] = Place(*place)
    return places


def _table(offsets: Sequence[GroupOffset]) -> pa.Table:
    # The offset's number is passed as the group, because the group is part of the result.
    columns: list[list[object]] = [
        [str(number) for number in range(len(offsets))],
        [each.topic for each in offsets],
        [each.partition for each in offsets],
        [each.offset for each in offsets],
        [""] * len(offsets),
    ]
    schema = arrow_schema(GROUP_OFFSETS)
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
