"""Without any one of the permissions that a flow needs, its mirror says which one to grant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.taken_permissions import Row, rows, said
from tests.support.taken_permissions_page import PAGE, guarded_pair, on_page


@pytest.fixture(scope="module")
def clusters(
    kafka: KafkaRuntime, session_logs: Path
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    with guarded_pair(kafka, session_logs) as pair:
        yield pair


@pytest.mark.slow
@pytest.mark.parametrize("row", list(rows()), ids=lambda row: " ".join(row.key))
def test_the_sentence_of_the_page_is_what_a_mirror_says(
    clusters: tuple[KafkaCluster, KafkaCluster],
    row: Row,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    sentence = on_page(PAGE.read_text())[row.key]
    said(clusters, row, tmp_path, logs / "mirror.log", listener, lambda text: sentence in text)
