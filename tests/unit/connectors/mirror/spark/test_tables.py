"""The tables' schemas are the same in Spark and in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from connectors.mirror.spark.tables import (
    BREAKS,
    CHECKPOINTS,
    GROUP_OFFSETS,
    SYNCS,
    arrow_schema,
    arrow_table,
)


@pytest.mark.parametrize("schema", [SYNCS, BREAKS, GROUP_OFFSETS, CHECKPOINTS])
def test_columns_have_the_same_names_and_nullability_in_arrow(schema: StructType) -> None:
    arrow = arrow_schema(schema)
    assert [(field.name, field.nullable) for field in arrow] == [
        (field.name, field.nullable) for field in schema.fields
    ]


def test_rows_become_columns() -> None:
    table = arrow_table(
        BREAKS, [("t", 0, 5, 9, 100, None, 9, 0, 0, None), ("t", 1, 0, 2, 7, 9, 2, 3, 4, 5)]
    )
    assert table.column("gap_target").to_pylist() == [None, 9]
    assert table.schema.field("partition").type == pa.int32()


def test_no_rows_give_an_empty_table_of_the_schema() -> None:
    assert arrow_table(SYNCS, []).schema == arrow_schema(SYNCS)


def test_a_row_with_a_column_missing_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        arrow_table(SYNCS, [("t", 0, 5, 9, 1), ("t", 0, 5)])
