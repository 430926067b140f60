"""Decides which engine copies a flow's records: the workers, or Spark's executors. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigType
from connect.config.validators import OneOf
from connectors.spark.properties import MASTER, is_local, refuse_remote, remote_of

__all__ = ["ENGINE", "check_copy_session", "copies_on_spark", "names_cluster"]

ENGINE = ConfigKey(
    "mirror.engine",
    ConfigType.STRING,
    "auto",
    OneOf(("auto", "worker", "spark")),
    Importance.MEDIUM,
    "Engine that copies records: `worker`: threads of the workers; `spark`: Spark tasks, "
    "configured by `spark.*`; `auto`: Spark tasks if the flow's `spark.master` names a cluster, "
    "else the workers (also with `spark.remote`, through which records cannot be copied). Each "
    "continues where the other stopped. Not a key of MirrorMaker 2.",
)


def copies_on_spark(props: Mapping[str, str]) -> bool:
    """Whether Spark copies the flow with these connector properties. The worker's own `spark.*`
    do not count, so every worker of a group says the same."""
    engine = props.get(ENGINE.name, "auto").strip()
    if engine == "auto":
        return names_cluster(props) and not remote_of(props)
    return engine == "spark"


def names_cluster(props: Mapping[str, str]) -> bool:
    """Whether the flow's `spark.master` or `spark.remote` names a cluster, and not this process."""
    master = props.get(MASTER, "").strip()
    return bool(remote_of(props)) or (bool(master) and not is_local(master))


def check_copy_session(props: Mapping[str, str]) -> None:
    """Raise `ConfigError` if Spark is to copy a flow with these properties, `spark.*` of its worker
    included, through Spark Connect."""
    if copies_on_spark(props):
        refuse_remote(
            f"The copy of records with {ENGINE.name}=spark",
            props,
            f"set {ENGINE.name}=worker, or {MASTER} instead of spark.remote",
        )
