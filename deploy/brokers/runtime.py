"""Java command lines on Kafka's class path: brokers, tools and Java peers alike."""

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
    """How a JVM is run.

    `heap`: maximal heap, as in -Xmx. `quick`: starts on 40 % less CPU but stays slower for good
    (only the first of the two compilers), so it is for demo and tests, not for benchmarks.
    `flags`: further JVM flags; they win.
    """

    heap: str = "512m"
    quick: bool = True
    flags: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        speed = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if self.quick else ["-XX:+UseG1GC"]
        return [f"-Xmx{self.heap}", *speed, "-XX:-UsePerfData", "-Xshare:auto", *self.flags]


QUICK = JvmOptions()
"""For demo and tests."""


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
        """Where `make_class_archive` puts the archive of these jars' classes for this Java. Java
        itself refuses one that another Java made, or that is of other jars."""
        told = "\n".join([str(self.java.resolve()), self.class_path])
        name = f"kafka-{self.version}-{hashlib.sha256(told.encode()).hexdigest()[:16]}.jsa"
        return cache_directory() / "class-archives" / name

    def command(
        self, main_class: str, arguments: Sequence[str], jvm: JvmOptions = QUICK
    ) -> list[str]:
        """The command line that runs `main_class`, logging to stdout. Where there is an archive of
        classes, a quick JVM begins with it."""
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
