"""The port of a driver with a local master, asked by who knows its secret and by others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from connect.clock import Deadline
from connectors.spark.drivers.jvm import SparkJvm
from tests.support.spark.session import START_S

HOST = "127.0.0.1"
ENDPOINT = "HeartbeatReceiver"
"""Every driver has it."""
ENDS_S = 10.0


@pytest.fixture(scope="module")
def other_jvm() -> Iterator[Any]:
    """Of another process: those of one share their secrets."""
    process = SparkJvm({"spark.master": "local[1]", "spark.driver.memory": "256m"})
    try:
        process.start(Deadline(START_S))
        yield process.gateway.jvm
    finally:
        process.close(ENDS_S)


def secret(spark: SparkSession) -> str:
    """Spark's own; no property has it."""
    driver: Any = spark._jvm
    return str(driver.org.apache.spark.SparkEnv.get().securityManager().getSecretKey())


@contextmanager
def peer(jvm: Any, properties: Mapping[str, str]) -> Iterator[Any]:
    """The other end of Spark's RPC, with these properties."""
    spark = jvm.org.apache.spark
    conf = spark.SparkConf(False).set("spark.rpc.io.maxRetries", "0")
    for key, value in properties.items():
        conf.set(key, value)
    keys = getattr(getattr(spark.internal.config, "package$"), "MODULE$")
    manager = spark.SecurityManager(conf, jvm.scala.Option.empty(), keys.AUTH_SECRET_FILE())
    made = spark.rpc.RpcEnv.create("peer", HOST, 0, conf, manager, True)
    try:
        yield made
    finally:
        made.shutdown()
        made.awaitTermination()


def find(spark: SparkSession, other: Any) -> str:
    """The driver's endpoint, as the peer finds it. Raises the peer's error."""
    port = spark.sparkContext.getConf().get("spark.driver.port")
    return str(other.setupEndpointRefByURI(f"spark://{ENDPOINT}@{HOST}:{port}"))


def with_secret(text: str) -> dict[str, str]:
    return {"spark.authenticate": "true", "spark.authenticate.secret": text}


def test_a_peer_with_the_secret_is_answered(spark: SparkSession, other_jvm: Any) -> None:
    with peer(other_jvm, with_secret(secret(spark))) as other:
        assert ENDPOINT in find(spark, other)


@pytest.mark.parametrize(
    "properties", [{}, with_secret("a guess")], ids=["no secret", "a wrong secret"]
)
def test_other_peers_are_refused(
    spark: SparkSession, other_jvm: Any, properties: Mapping[str, str]
) -> None:
    with peer(other_jvm, properties) as other, pytest.raises(Py4JJavaError):
        find(spark, other)
