"""Which Spark is installed, and whether this program works with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from connectors.spark import requirements
from connectors.spark.requirements import why_no_spark
from connectors.spark.versions import (
    kafka_connector,
    pyspark_version,
    table_package,
    unsuitable_version,
)


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, version: str) -> None:
    """Put a PySpark of this version before the one of the tests."""
    package = folder / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text(f'__version__: str = "{version}"\n')
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(folder)


def spark_home(monkeypatch: pytest.MonkeyPatch, folder: Path, version: str) -> Path:
    home = folder / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / f"spark-core_2.13-{version}.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


def test_the_version_is_pyspark_s_own() -> None:
    assert pyspark_version() == pyspark.__version__


def test_the_kafka_source_has_the_version_of_pyspark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, "4.1.7")
    assert kafka_connector() == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.7"


@pytest.mark.parametrize("version", ["4.0.0", "4.0.5", "4.1.1"])
def test_spark_4_0_and_4_1_are_supported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    install(monkeypatch, tmp_path, version)
    assert unsuitable_version() is None
    assert [table_package(name).split(":")[0] for name in ("delta", "iceberg")] == [
        "io.delta",
        "org.apache.iceberg",
    ]


@pytest.mark.parametrize("version", ["3.5.6", "4.2.0", "4.10.0"])
def test_another_pyspark_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    install(monkeypatch, tmp_path, version)
    assert why_no_spark() == (
        f"PySpark {version} is installed, but this program needs 4.0 or 4.1: run "
        "pip install 'pyspark>=4.0.0,<4.2'"
    )


def test_a_spark_home_of_another_version_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, "4.0.0")
    home = spark_home(monkeypatch, tmp_path, "4.1.1")
    assert unsuitable_version() == (
        f"SPARK_HOME={home} has Spark 4.1.1, but the installed PySpark is 4.0.0: unset "
        "SPARK_HOME, or set it to a Spark 4.0.0"
    )


def test_a_spark_home_of_the_same_version_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, "4.0.0")
    spark_home(monkeypatch, tmp_path, "4.0.0")
    assert unsuitable_version() is None


def test_a_session_of_spark_connect_needs_its_client_s_packages_and_no_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(requirements, "find_java", lambda before: None)
    installed = {"pyspark", "pyarrow", "grpc", "grpc_status", "google.rpc"}
    monkeypatch.setattr(requirements, "_is_installed", installed.__contains__)
    remote = {"spark.remote": "sc://host"}
    assert why_no_spark(remote) == (
        "Spark needs the Python package pandas, which is not installed: run pip install 'pandas<3'"
    )
    installed.add("pandas")
    assert why_no_spark(remote) is None
    assert why_no_spark({}) == requirements.NO_JAVA
