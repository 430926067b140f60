"""Without any one of the permissions that a flow needs, its mirror says which one to grant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from connect.clients.permissions import Operation
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import running
from tests.support.security.guarded_flow import COUNT, Guarded
from tests.support.security.permissions import forget, revoke, topic
from tests.support.security.taken_permissions import (
    USER,
    Mode,
    Row,
    in_words_of_the_page,
    log_texts,
    rows,
    said,
    texts_of,
)
from tests.support.security.taken_permissions_page import PAGE, guarded_pair, on_page
from tests.support.served import health_of
from tests.support.spark.flow import START_S
from tests.support.waiting import wait_until

SOON_S = 60.0
ON_SPARK = (Mode.SPARK, Mode.SPARK_ONCE)
BY_EXECUTORS = (("A.", Operation.WRITE), ("mm2-offset-syncs.B.internal", Operation.WRITE))
"""What executors write, and what is written of their results; all else is as without Spark."""


def _of_executors(row: Row) -> bool:
    permission = row.permission
    return row.mode in ON_SPARK and (permission.pattern.name, permission.operation) in BY_EXECUTORS


def ids(row: Row) -> str:
    return " ".join(row.key)


@pytest.fixture(scope="module")
def clusters(
    kafka: KafkaRuntime, session_logs: Path
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    with guarded_pair(kafka, session_logs) as pair:
        yield pair


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in rows() if row.mode not in ON_SPARK], ids=ids)
def test_the_sentence_of_the_page_is_what_a_mirror_says(
    clusters: tuple[KafkaCluster, KafkaCluster],
    row: Row,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    sentence = on_page(PAGE.read_text())[row.key]
    said(clusters, row, tmp_path, logs / "mirror.log", listener, lambda text: sentence in text)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in rows() if _of_executors(row)], ids=ids)
def test_a_flow_that_spark_copies_says_it_in_the_log_and_on_health(
    clusters: tuple[KafkaCluster, KafkaCluster],
    row: Row,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    """The page has the sentences of all rows; these come from executors and their results."""
    sentence, log = on_page(PAGE.read_text())[row.key], logs / "mirror.log"
    said(clusters, row, tmp_path, log, listener, lambda text: sentence in text, everywhere=True)


@pytest.mark.slow
def test_a_flow_that_spark_copies_names_what_is_taken_from_it_later(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, listener: str
) -> None:
    for cluster in clusters:
        forget(cluster, USER)
    guarded, log = Guarded(clusters, USER), logs / "mirror.log"
    extra = {**Mode.SPARK.properties(""), "topics": guarded.topic}
    guarded.grant(Mode.SPARK.features, extra=extra)
    wanted = "grant Read on topic orders at the source"

    def named(texts: Iterable[str]) -> bool:
        return any(wanted in in_words_of_the_page(guarded, text) for text in texts)

    with running(guarded.properties(listener, extra), tmp_path, log):
        guarded.flow.wait_records(guarded.topic, [COUNT], START_S)
        assert not named(log_texts(log))
        revoke(guarded.flow.source, USER, [topic(guarded.topic, "read describe_configs")])
        wait_until(lambda: named(log_texts(log)), SOON_S, "the log names it")
        wait_until(lambda: named(texts_of(health_of(listener))), SOON_S, "/health names it")
