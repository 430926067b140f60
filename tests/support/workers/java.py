"""Java classes of Kafka itself, run as oracles and peers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deploy.brokers import GuardedProcess, JvmOptions, KafkaRuntime

__all__ = ["SERVICES", "compile_java", "java_process", "run_java_class", "with_class"]

_JAVAC_S = 120.0
SERVICES = {"plugin.discovery": "service_load"}
"""Of a Connect worker: it takes the plugins that their jars name. By default it also looks through
all classes, finds the same, and uses more than half of the CPU of its start for that."""


def compile_java(kafka: KafkaRuntime, source: Path, folder: Path) -> None:
    """Compile a source file against Kafka's jars into a folder. Fails the test with the compiler's
    output; so where this Java is no JDK."""
    jars = os.pathsep.join(map(str, kafka.jars))
    javac = [str(kafka.java), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    done = subprocess.run(
        [*javac, "-nowarn", "-cp", jars, "-d", str(folder), str(source)],
        capture_output=True,
        text=True,
        timeout=_JAVAC_S,
        check=False,
    )
    assert done.returncode == 0, f"{source.name} does not compile\n{done.stdout}{done.stderr}"


def with_class(kafka: KafkaRuntime, source: Path, folder: Path) -> KafkaRuntime:
    """The same Kafka, with the class of a source file on its class path. `folder`: of the compiled
    class."""
    compile_java(kafka, source, folder)
    return replace(kafka, jars=(*kafka.jars, folder))


def java_process(
    kafka: KafkaRuntime,
    main_class: str,
    arguments: Sequence[str],
    log: Path,
    *,
    jvm: JvmOptions | None = None,
) -> GuardedProcess:
    """Start a class of Kafka's class path; its output and log4j's go to `log`."""
    return GuardedProcess(kafka.command(main_class, arguments, jvm or JvmOptions()), log)


def run_java_class(
    kafka: KafkaRuntime,
    main_class: str,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout_s: float = 60.0,
    jvm: JvmOptions | None = None,
) -> str:
    """Run a class to its end and return its stdout. Fails the test, with its output, when the exit
    status is not 0. log4j's lines are in stdout as well."""
    answer = subprocess.run(
        kafka.command(main_class, arguments, jvm or JvmOptions(heap="256m")),
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    output = answer.stdout.decode(errors="replace")
    errors = answer.stderr.decode(errors="replace")
    assert answer.returncode == 0, f"{main_class} ended with {answer.returncode}\n{output}{errors}"
    return output
