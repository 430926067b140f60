"""The golden files that Java makes, and how: the answers of Kafka 4.3.1 to questions of ours.

`make golden` writes them again; `tests/compat/test_golden_files.py` compares them with what the
pinned jars say. Not among them: the key stores (`key_stores/make.sh`), whose keys are random, and
the Java programs that tests run themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.brokers import KafkaRuntime
from tests.golden.connect_data.cases import cases_text
from tests.golden.connect_metrics import capture as connect_metrics
from tests.golden.connect_validation import capture as connect_validation
from tests.golden.dead_letters import capture as dead_letters
from tests.golden.mirror_maker_config.environment import ENVIRONMENT
from tests.support.workers.java import compile_java

__all__ = ["GOLDEN", "Answers"]

Answers = Callable[[KafkaRuntime], dict[Path, str]]
"""Asks Java; golden files and the text of each. Needs a JDK. Fails as a test does."""

_FOLDER = Path(__file__).parent
_PROGRAM_S = 120.0
# Identity hashes are in the texts of some errors: with these flags they are all 1.
_JVM = ("-Duser.timezone=UTC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")


def _program(source: str, answers: str, questions: str | None = None) -> Answers:
    """A Java program that reads the questions, if there are any, and prints the answers."""

    def ask(kafka: KafkaRuntime) -> dict[Path, str]:
        with tempfile.TemporaryDirectory() as folder:
            stdin = b"" if questions is None else (_FOLDER / questions).read_bytes()
            return {_FOLDER / answers: _run(kafka, _FOLDER / source, Path(folder), (), stdin)}

    return ask


def _connect_data(kafka: KafkaRuntime) -> dict[Path, str]:
    """Its questions are made, too."""
    home = _FOLDER / "connect_data"
    cases = cases_text()
    with tempfile.TemporaryDirectory() as folder:
        results = _run(kafka, home / "ConnectData.java", Path(folder), (), cases.encode())
    return {home / "cases.json": cases, home / "results.json": results}


def _mirror_maker_config(kafka: KafkaRuntime) -> dict[Path, str]:
    """The program writes its answers beside the property files: here, beside copies of them."""
    home = _FOLDER / "mirror_maker_config"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copies = [shutil.copy(path, folder) for path in sorted(home.glob("*.properties"))]
        package = "org.apache.kafka.connect.mirror."
        _run(kafka, home / "DumpMirrorMakerConfig.java", folder, copies, package=package)
        return {home / path.name: path.read_text() for path in sorted(folder.glob("*.json"))}


def _run(
    kafka: KafkaRuntime,
    source: Path,
    folder: Path,
    arguments: Sequence[str | Path],
    stdin: bytes = b"",
    package: str = "",
) -> str:
    compile_java(kafka, source, folder)
    classes = os.pathsep.join(map(str, (folder, *kafka.jars)))
    command = [str(kafka.java), *_JVM, "-cp", classes, package + source.stem]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        input=stdin,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        timeout=_PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, f"{source.name} failed\n{done.stderr.decode(errors='replace')}"
    return done.stdout.decode()


GOLDEN: dict[str, Answers] = {
    "assignor_traces": _program(
        "group_protocol/AssignorTraces.java", "group_protocol/assignor_traces.json"
    ),
    "connect_data": _connect_data,
    "connect_metrics": connect_metrics.capture,
    "connect_validation": connect_validation.capture,
    "dead_letters": dead_letters.capture,
    "eager_assignments": _program(
        "group_protocol/EagerAssignments.java", "group_protocol/eager_assignments.json"
    ),
    "mirror_maker_config": _mirror_maker_config,
    "record_batches": _program("RecordBatches.java", "record_batches.json"),
    "topic_creation": _program(
        "topic_creation/TopicGroups.java",
        "topic_creation/results.json",
        "topic_creation/cases.json",
    ),
}
"""By name."""
