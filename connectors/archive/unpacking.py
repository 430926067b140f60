"""Archived keys and values unpacked by a schema, in columns beside their bytes.

The bytes stay as they are, so a restore needs no schema. A value that does not parse is not
unpacked, and is marked and counted. Runs on the driver: the columns are Spark's own expressions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyspark  # noqa: F401 - before its parts
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StringType, StructField, StructType

from connect.errors import ConfigError
from connectors.archive.json_schema import struct_of
from connectors.archive.rows import WRITE_SCHEMA
from connectors.spark.errors import first_line
from connectors.spark.versions import avro_functions

__all__ = ["FileSchema", "Unpacking", "read_schema"]

_AVRO = ".avsc"
_CORRUPT = "_unparsed"
_NO_AVRO = "AVRO_NOT_LOADED"
"""In Spark's error."""
_HEAD_BYTES = 5
"""Confluent's serializers put a zero and the schema's ID, of four bytes, before the data."""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """A schema from a file. `avro`: an Avro schema; else that of `struct`, of JSON. `headed`:
    whether Avro data have the schema's ID before them. With JSON, the data themselves tell."""

    path: str
    avro: object = None
    struct: StructType | None = None
    headed: bool = True

    @property
    def needs_avro(self) -> bool:
        return self.struct is None

    def parsed(self, data: Column) -> tuple[Column, Column]:
        """Return what these bytes hold, null where they do not parse, and whether they do."""
        return self._from_avro(data) if self.struct is None else self._from_json(data, self.struct)

    def schema_id(self, data: Column) -> Column:
        """Return the ID before these bytes; null without one."""
        number = F.conv(F.hex(F.substring(data, 2, 4)), 16, 10).cast("bigint").cast("int")
        return F.when(_has_head(data) & F.lit(self.headed), number)

    def _from_avro(self, data: Column) -> tuple[Column, Column]:
        # The head is a field of its own, because Spark gives null fields, not null, for a record
        # that does not parse, and a record may have nothing but null fields.
        head = {"type": "fixed", "name": "MirrorArchiveHead", "size": _HEAD_BYTES}
        fields = [{"name": "head", "type": head}, {"name": "body", "type": self.avro}]
        wrapped = {"type": "record", "name": "MirrorArchiveData", "fields": fields}
        if self.headed:
            payload = F.when(_has_head(data), data)
        else:
            payload = F.concat(F.lit(bytes(_HEAD_BYTES)), data)
        found = from_avro(payload, json.dumps(wrapped), {"mode": "PERMISSIVE"})
        return found["body"], found["head"].isNotNull()

    def _from_json(self, data: Column, struct: StructType) -> tuple[Column, Column]:
        # No JSON text begins with a zero.
        payload = F.when(_has_head(data), F.substring(data, _HEAD_BYTES + 1, 2**31 - 1))
        text = payload.otherwise(data).cast("string")
        marked = StructType([*struct.fields, StructField(_CORRUPT, StringType())])
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        found = F.from_json(text, marked, options)
        # Of an array Spark would take the first object.
        whole = found.isNotNull() & found[_CORRUPT].isNull() & ~F.ltrim(text).startswith("[")
        fields = F.struct(*(found.getField(each.name).alias(each.name) for each in struct.fields))
        return F.when(whole, fields), whole


def _has_head(data: Column) -> Column:
    return (F.length(data) >= _HEAD_BYTES) & (F.substring(data, 1, 1) == F.lit(b"\0"))


def read_schema(path: Path, *, headed: bool = True) -> FileSchema:
    """Read an Avro schema (`.avsc`) or a JSON Schema. Raises `ConfigError`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON, as Avro and JSON schemas are: {error}") from error
    if path.suffix == _AVRO:
        return FileSchema(str(path), avro=found, headed=headed)
    return FileSchema(str(path), struct=struct_of(found, str(path)))


@dataclass(frozen=True, slots=True)
class Unpacking:
    """Unpacks the keys and values of an archive. `schemas`: by column, `key` and `value`."""

    schemas: Mapping[str, FileSchema] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.schemas)

    @property
    def needs_avro(self) -> bool:
        """Whether the session must have Spark's Avro functions."""
        return any(each.needs_avro for each in self.schemas.values())

    def check(self, session: SparkSession) -> None:
        """Raise `ConfigError` if Spark does not accept a schema."""
        rows = session.createDataFrame([], WRITE_SCHEMA)
        for name, schema in self.schemas.items():
            try:
                _ = Unpacking({name: schema}).of(rows).schema
            except (PySparkException, Py4JError) as error:
                reason = first_line(error)
                if _NO_AVRO in reason:
                    reason = (
                        "the session lacks Spark's Avro functions: give spark-submit --packages "
                        f"{avro_functions()}"
                    )
                raise ConfigError(f"{schema.path}: {reason}") from error

    def of(self, rows: DataFrame) -> DataFrame:
        """Add the columns `..._unpacked`, `..._unparsed` and `..._schema_id`."""
        for name, schema in self.schemas.items():
            data = F.col(name)
            unpacked, whole = schema.parsed(data)
            unparsed = data.isNotNull() & ~F.coalesce(whole, F.lit(False))
            rows = (
                rows.withColumn(f"{name}_unpacked", unpacked)
                .withColumn(f"{name}_unparsed", unparsed)
                .withColumn(f"{name}_schema_id", schema.schema_id(data))
            )
        return rows

    def unparsed(self) -> Column:
        """Return the aggregate that counts what does not parse, of rows that `of` returned."""
        counts = [F.count_if(F.col(f"{name}_unparsed")) for name in self.schemas]
        return sum(counts[1:], counts[0])
