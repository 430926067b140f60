"""Which flows have their process start Spark at its launch. No session is started."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connectors.mirrormaker import spark_at_launch
from connectors.mirrormaker.spark_at_launch import start_spark

WORKER: Mapping[str, str] = {"topics": "t"}
LOCAL = {"mirror.engine": "spark"}
CLUSTER = {"spark.master": "spark://m:7077"}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def start(name: str, _props: Mapping[str, str], *, kafka: bool, frames: bool) -> None:
        names.append(name + " kafka" * kafka + " frames" * frames)

    monkeypatch.setattr(spark_at_launch, "_start", start)
    return names


@pytest.mark.parametrize("props", [LOCAL, CLUSTER])
def test_the_first_flow_that_spark_copies_starts_it(
    props: Mapping[str, str], started: list[str]
) -> None:
    start_spark([("A->B", WORKER), ("B->A", props), ("A->C", LOCAL)])
    assert started == ["B->A"]


def test_it_has_all_that_any_flow_needs(started: list[str]) -> None:
    start_spark(
        [
            ("A->B", LOCAL),
            ("A->C", {**WORKER, "mirror.translation.engine": "spark"}),
            ("A->D", {**LOCAL, "mirror.transform": "SELECT * FROM records"}),
        ]
    )
    assert started == ["A->B kafka frames"]


@pytest.mark.parametrize(
    "props",
    [
        WORKER,
        {"spark.master": "local[2]"},  # Spark computes the periodic jobs only.
        {**CLUSTER, "mirror.engine": "worker"},
    ],
)
def test_no_other_flow_does(props: Mapping[str, str], started: list[str]) -> None:
    start_spark([("A->B", props)])
    assert started == []


def test_without_pyspark_the_task_says_what_is_missing(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_at_launch, "missing_pyspark", lambda: "it is missing")
    start_spark([("A->B", LOCAL)])
    assert started == []
