"""Starts the Spark session of flows that Spark copies at the launch of their process.

The JVM takes seconds to start. Meanwhile the flows' workers connect to their clusters, join their
groups and look for topics; then the task that copies finds the session, or one that is starting. If
another process of the group gets the task, the session ends after `mirror.spark.idle.timeout.ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from connect.errors import ConnectError
from connectors.mirror.config.checkpoint import TRANSLATION_ENGINE
from connectors.mirror.config.engine import copies_on_spark
from connectors.mirror.topic_routes import TRANSFORM_KEY
from connectors.spark.requirements import missing_pyspark

if TYPE_CHECKING:
    from connectors.spark.session import SparkLease

__all__ = ["start_spark"]

_LOG = logging.getLogger(__name__)


def start_spark(flows: Iterable[tuple[str, Mapping[str, str]]]) -> None:
    """Begin to start the session of the first of these flows that Spark copies, and return at once.
    `flows`: names, and configs of source connectors. The task reports the reason if no session is
    possible.

    It is started with all that any of the flows needs, because a session that copies would first
    have to be drained before it can be restarted with more."""
    known = dict(flows)
    copied = next((name for name, props in known.items() if copies_on_spark(props)), None)
    if copied is not None and missing_pyspark() is None:
        _start(
            copied,
            known[copied],
            kafka=any(_translates_on_spark(props) for props in known.values()),
            frames=any(props.get(TRANSFORM_KEY, "").strip() for props in known.values()),
        )


def _translates_on_spark(props: Mapping[str, str]) -> bool:
    return props.get(TRANSLATION_ENGINE, "").strip() == "spark"


def _start(name: str, props: Mapping[str, str], *, kafka: bool, frames: bool) -> None:
    # Imported here: PySpark takes memory that a process without a session need not spend.
    from connectors.spark.session import shared_session

    leases: list[SparkLease] = []

    def release() -> None:
        """Release the session. It stays for its idle time, in which the task takes its own
        lease."""
        for lease in leases:
            lease.release()

    _LOG.info("%s is copied on Spark: starting it while the worker joins its group", name)
    try:
        shared = shared_session()
        leases.append(
            shared.acquire(
                name, props, kafka=kafka, frames=frames, on_ready=release, on_failed=release
            )
        )
    except ConnectError as error:
        _LOG.debug("no Spark at launch: %s", error)
        return
    if shared.session is not None:
        release()
