"""The command that starts the driver's JVM, and its CPU priority."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.spark.class_archive import class_archive
from connectors.spark.drivers.jvm_command import driver_command, lower_cpu_priority, spark_home

AUTOGROUP = Path("/proc/self/autogroup")
JAVA, FILE = Path("/jre/bin/java"), Path("/dir/spark.properties")


@pytest.fixture(autouse=True)
def no_spark_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)


def test_a_local_driver_is_started_without_shells_and_without_the_vector_module() -> None:
    command = driver_command(
        JAVA,
        FILE,
        {
            "spark.master": "local[2]",
            "spark.driver.memory": "700m",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC '-Da=b c'",
            "spark.driver.extraClassPath": "/extra.jar",
        },
    )
    assert command[0] == str(JAVA)
    assert "-Xmx700m" in command
    assert {"-XX:+UseSerialGC", "-Da=b c"} <= set(command)
    assert not [each for each in command if "vector" in each]
    paths = command[command.index("-cp") + 1].split(os.pathsep)
    assert paths[0] == "/extra.jar"
    assert paths[-1].endswith("jars/*")
    assert command[-3:] == ["--properties-file", str(FILE), "pyspark-shell"]


def test_a_local_driver_maps_the_classes_that_were_archived_for_its_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA_CONNECT_MIRROR_CACHE", str(tmp_path))

    def archives(java: Path, options: str = "") -> list[str]:
        props = {"spark.master": "local[2]", "spark.driver.extraJavaOptions": options}
        found = driver_command(java, FILE, props)
        return [each for each in found if each.startswith("-XX:SharedArchiveFile=")]

    assert archives(JAVA) == []
    archive = class_archive(JAVA, spark_home(), tmp_path)
    archive.parent.mkdir()
    archive.touch()
    assert archives(JAVA) == [f"-XX:SharedArchiveFile={archive}"]
    assert archives(Path("/other/bin/java")) == []
    assert archives(JAVA, "-XX:ArchiveClassesAtExit=/new.jsa") == []


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://h", "local-cluster[1,1,512]"])
def test_any_other_master_is_left_to_spark_submit(master: str) -> None:
    command = driver_command(JAVA, FILE, {"spark.master": master})
    assert command[0].endswith("bin/spark-submit")


def test_another_spark_starts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/other")
    command = driver_command(JAVA, FILE, {"spark.master": "local[2]"})
    assert command[0] == "/other/bin/spark-submit"


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux only")
@pytest.mark.parametrize("own_session", [True, False])
def test_the_lowest_priority_counts_for_later_threads_and_no_other_process(
    own_session: bool,
) -> None:
    before = AUTOGROUP.read_text() if AUTOGROUP.exists() else ""
    program = (
        "import os, sys, threading\n"
        "sys.stdin.readline()\n"
        "def tell(): print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))\n"
        "thread = threading.Thread(target=tell); thread.start(); thread.join()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=own_session,
    ) as process:
        lower_cpu_priority(process.pid)
        told, _ = process.communicate("go\n", timeout=60)
    assert told.split() == [str(os.SCHED_IDLE), "19"]
    if AUTOGROUP.exists():
        assert AUTOGROUP.read_text() == before
