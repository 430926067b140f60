"""Decides which engine copies a flow's records: the workers, or Spark's executors. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigType
from connect.config.validators import OneOf
from connectors.spark.properties import MASTER, is_local

__all__ = ["ENGINE", "copies_on_spark", "names_cluster"]

ENGINE = ConfigKey(
    "mirror.engine",
    ConfigType.STRING,
    "auto",
    OneOf(("auto", "worker", "spark")),
    Importance.MEDIUM,
    "Engine that copies records: `worker`: threads of the workers; `spark`: Spark tasks, "
    "configured by `spark.*`; `auto`: Spark tasks if the flow's `spark.master` names a cluster, "
    "else the workers. Each continues where the other stopped. Not a key of MirrorMaker 2.",
)


def copies_on_spark(props: Mapping[str, str]) -> bool:
    """Whether Spark copies the flow with these connector properties. The worker's own `spark.*`
    do not count, so every worker of a group says the same."""
    engine = props.get(ENGINE.name, "auto").strip()
    return names_cluster(props) if engine == "auto" else engine == "spark"


def names_cluster(props: Mapping[str, str]) -> bool:
    """Whether the flow's `spark.master` names a cluster, and not this process."""
    master = props.get(MASTER, "").strip()
    return bool(master) and not is_local(master)
