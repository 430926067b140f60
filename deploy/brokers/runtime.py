"""Java command lines with Kafka's class path, for brokers, tools and Java peers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.brokers.cache import cache_directory
from deploy.brokers.versions import KAFKA_VERSION, uses_log4j2

__all__ = ["QUICK", "JvmOptions", "KafkaRuntime"]

_LOG4J2 = Path(__file__).with_name("log4j2.properties")
_LOG4J = Path(__file__).with_name("log4j.properties")


@dataclass(frozen=True, slots=True)
class JvmOptions:
    """Options of a JVM.

    `heap`: maximum heap, as in -Xmx. `quick`: use only the first-tier compiler, which starts with
    40 % less CPU but stays slower; for demo and tests, not for benchmarks. `flags`: additional JVM
    flags, which take precedence.
    """

    heap: str = "512m"
    quick: bool = True
    flags: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        speed = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if self.quick else ["-XX:+UseG1GC"]
        return [f"-Xmx{self.heap}", *speed, "-XX:-UsePerfData", "-Xshare:auto", *self.flags]


QUICK = JvmOptions()
"""Options for the demo and tests."""


@dataclass(frozen=True, slots=True)
class KafkaRuntime:
    """A Java executable and the jars of one Kafka version."""

    java: Path
    jars: tuple[Path, ...]
    version: str = KAFKA_VERSION

    @property
    def class_path(self) -> str:
        return os.pathsep.join(map(str, self.jars))

    @property
    def class_archive(self) -> Path:
        """Return the path at which `make_class_archive` stores the class archive for this Java and
        these jars. Java rejects an archive of another Java or of other jars."""
        told = "\n".join([str(self.java.resolve()), self.class_path])
        name = f"kafka-{self.version}-{hashlib.sha256(told.encode()).hexdigest()[:16]}.jsa"
        return cache_directory() / "class-archives" / name

    def command(
        self, main_class: str, arguments: Sequence[str], jvm: JvmOptions = QUICK
    ) -> list[str]:
        """Return the command line that runs `main_class` with logs on stdout. A quick JVM uses the
        class archive if there is one."""
        archive = self.class_archive
        archived = [f"-XX:SharedArchiveFile={archive}"] if jvm.quick and archive.exists() else []
        return [
            str(self.java),
            *jvm.arguments(),
            *archived,
            f"-Dlog4j2.configurationFile={_LOG4J2.as_uri()}"
            if uses_log4j2(self.version)
            else f"-Dlog4j.configuration={_LOG4J.as_uri()}",
            "-cp",
            self.class_path,
            main_class,
            *arguments,
        ]
