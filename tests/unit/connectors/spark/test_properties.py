"""What a Spark session is configured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.config.properties import parse_properties
from connect.config.secrets import without_secrets
from connect.errors import ConfigError
from connectors.spark.properties import (
    check_spark_properties,
    is_local,
    place_of,
    properties_text,
    refuse_remote,
    runs_here,
    session_properties,
    spark_properties,
    standalone_masters,
)
from connectors.spark.versions import kafka_connector

CACHE = Path("/cache")


def made(kafka: bool = False, **given: str) -> dict[str, str]:
    props = {f"spark.{key.replace('_', '.')}": value for key, value in given.items()}
    return session_properties(props, kafka=kafka, cache=CACHE, cores=2)


def test_only_spark_s_own_properties_are_taken() -> None:
    props = {"spark.master": "local[1]", "topics": "a", "sparkle": "no"}
    assert spark_properties(props) == {"spark.master": "local[1]"}


def test_a_local_session_talks_to_nobody_without_its_secret() -> None:
    """Other users of the machine reach its port. A cluster has settings of its own."""
    assert made(master="local[2]")["spark.authenticate"] == "true"
    assert made(master="local[2]", authenticate="false")["spark.authenticate"] == "false"
    assert "spark.authenticate" not in made(master="spark://m:7077")


def test_a_session_is_local_small_and_quiet_by_default() -> None:
    props = made()
    assert props["spark.master"] == "local[*]"
    assert props["spark.driver.memory"] == "1g"
    assert props["spark.driver.bindAddress"] == "127.0.0.1"
    assert props["spark.ui.enabled"] == "false"
    assert props["spark.sql.shuffle.partitions"] == "2"
    assert "spark.jars.packages" not in props
    # A machine's spark-defaults.conf does not count where this is said.
    assert props["spark.speculation"] == "false"


def test_every_default_can_be_overridden() -> None:
    props = made(driver_memory="8g", sql_shuffle_partitions="400", ui_enabled="true")
    assert props["spark.driver.memory"] == "8g"
    assert props["spark.sql.shuffle.partitions"] == "400"
    assert props["spark.ui.enabled"] == "true"


def test_flags_for_the_driver_are_added_to_ours() -> None:
    flags = made(driver_extraJavaOptions="-Dmine=1")["spark.driver.extraJavaOptions"]
    assert flags.startswith("-Dlog4j2.configurationFile=file:")
    assert flags.endswith(" -XX:TieredStopAtLevel=1 -Dmine=1")


def test_executors_elsewhere_must_reach_the_driver() -> None:
    props = made(master="spark://somewhere:7077")
    assert "spark.driver.bindAddress" not in props
    assert "spark.sql.shuffle.partitions" not in props


def test_the_kafka_source_is_fetched_into_the_cache() -> None:
    props = made(kafka=True)
    assert props["spark.jars.packages"] == kafka_connector()
    assert props["spark.jars.ivy"] == "/cache/ivy"
    assert "hadoop-client-runtime" in props["spark.jars.excludes"]


def test_the_user_s_packages_stay() -> None:
    props = made(kafka=True, jars_packages="a:b:1", jars_ivy="/mine")
    assert props["spark.jars.packages"] == f"a:b:1,{kafka_connector()}"
    assert props["spark.jars.ivy"] == "/mine"


@pytest.mark.parametrize("key", ["jars", "jars_packages"])
def test_a_kafka_source_of_the_user_s_own_is_not_fetched_again(key: str) -> None:
    own = "/opt/jars/spark-sql-kafka-0-10_2.13-4.0.0.jar"
    props = made(kafka=True, **{key: own})
    assert props[f"spark.{key.replace('_', '.')}"] == own
    assert "spark.jars.excludes" not in props


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)],
)
def test_local_is_one_process(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_all_masters_of_a_url_are_named() -> None:
    assert standalone_masters("spark://a:7077,[::1]:7078") == [("a", 7077), ("::1", 7078)]
    assert standalone_masters("k8s://https://a:443") == []


def test_values_survive_the_properties_file() -> None:
    props = {"spark.a": "x=y: # ! \\ \t z", "spark.b c": " leading", "spark.empty": ""}
    assert parse_properties(properties_text(props)) == props


@pytest.mark.parametrize(
    ("given", "key", "reason"),
    [
        (
            {"spark.master": "sc://h:15002/;token=hidden-token"},
            "spark.master",
            "spark.master=sc://h:15002 is the address of a Spark Connect server: set spark.remote",
        ),
        (
            {"spark.remote": "sc://h:15002/;token=hidden-token", "spark.master": "spark://m:7077"},
            "spark.remote",
            "spark.remote=sc://h:15002 and spark.master=spark://m:7077 are both set",
        ),
        ({"spark.remote": "local[2]"}, "spark.remote", "must be the address of a Spark Connect"),
        ({"spark.remote": "sc:///;use_ssl=true"}, "spark.remote", "must be the address"),
        ({"spark.remote": "sc://h/path"}, "spark.remote", "must be the address"),
    ],
)
def test_addresses_of_no_session_are_refused_by_name(
    given: dict[str, str], key: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        check_spark_properties(given)
    assert raised.value.key == key
    assert reason in str(raised.value)
    assert "hidden-token" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "here", "place"),
    [
        ({}, True, "local[*]"),
        ({"spark.master": "local[2]", "spark.remote": ""}, True, "local[2]"),
        ({"spark.master": "k8s://https://h:443"}, False, "k8s://https://h:443"),
        ({"spark.remote": "sc://h"}, False, "sc://h"),
        ({"spark.remote": " sc://h:1/;token=hidden-token;use_ssl=true "}, False, "sc://h:1"),
    ],
)
def test_a_session_has_a_place(given: dict[str, str], here: bool, place: str) -> None:
    check_spark_properties(given)
    assert runs_here(given) is here
    assert place_of(given) == place


def test_a_token_in_an_address_is_hidden_in_the_log() -> None:
    place_of({"spark.remote": "sc://h/;use_ssl=true;token=5ecret-token"})
    assert without_secrets("reached with 5ecret-token") == "reached with [hidden]"


def test_what_needs_a_driver_is_refused_by_name() -> None:
    refuse_remote("The archive", {"spark.master": "local[1]"}, "walk")
    with pytest.raises(ConfigError) as raised:
        refuse_remote("The archive", {"spark.remote": "sc://h/;token=hidden-token"}, "walk")
    assert str(raised.value) == (
        "The archive cannot run through Spark Connect (spark.remote=sc://h), because it needs a "
        "Spark driver of this process: walk"
    )
