"""Config and ACL sync computed on Spark, from the rows that `connectors.mirror.settings` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from connect.clients.librdkafka.acls import Acl
from connectors.mirror.settings.plans import ConfigRow, Plan, PropertyRow
from connectors.mirror.spark.acl_diff import acl_plan
from connectors.mirror.spark.config_diff import config_changes
from connectors.mirror.spark.tables import ACLS, CONFIGS, PROPERTIES, TOPICS, arrow_table
from connectors.spark.arrow import collect

__all__ = ["acl_plan_on_spark", "config_changes_on_spark"]


def config_changes_on_spark(
    session: SparkSession,
    source: Iterable[ConfigRow],
    target: Iterable[ConfigRow],
    topics: Iterable[tuple[str, str]],
    properties: Iterable[PropertyRow],
) -> Plan:
    """Compute the same as `connectors.mirror.settings.plans.config_changes`."""
    changes = config_changes(
        _frame(session, CONFIGS, source),
        _frame(session, CONFIGS, target),
        _frame(session, TOPICS, topics),
        _frame(session, PROPERTIES, properties),
    )
    return list(collect(changes).to_pylist())


def acl_plan_on_spark(
    session: SparkSession, source: Iterable[Acl], target: Iterable[Acl], topics: Mapping[str, str]
) -> Plan:
    """Compute the same as `connectors.mirror.settings.plans.acl_plan`."""
    plan = acl_plan(
        _frame(session, ACLS, source),
        _frame(session, ACLS, target),
        _frame(session, TOPICS, topics.items()),
    )
    return list(collect(plan).to_pylist())


def _frame(
    session: SparkSession, schema: StructType, rows: Iterable[Sequence[object]]
) -> DataFrame:
    return session.createDataFrame(arrow_table(schema, rows))
