"""`python -m deploy.brokers [VERSION...]`: download everything that brokers need (jars, and a JRE
if there is no Java).

Without versions, downloads the one that the demo and most tests run, and builds an archive of its
classes, which halves the CPU of a JVM's start. Prints nothing if everything is there already. Exit
status 1, after one sentence, if a download fails.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from deploy.brokers.artifacts import Progress
from deploy.brokers.class_archive import make_class_archive
from deploy.brokers.cluster import kafka_runtime
from deploy.brokers.errors import DeployError
from deploy.brokers.versions import KAFKA_VERSION, OLD_VERSIONS

_MB = 1_000_000


class _Line:
    """Shows progress: on one line of a terminal, otherwise a line per 10 %."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._shown = -1

    def show(self, progress: Progress) -> None:
        step = 1 if sys.stderr.isatty() else 10
        percent = progress.bytes_done * 100 // progress.bytes_total // step * step
        if percent == self._shown:
            return
        self._shown = percent
        line = (
            f"Fetching Kafka {self._version}: {progress.bytes_done / _MB:.0f} of "
            f"{progress.bytes_total / _MB:.0f} MB ({percent} %)"
        )
        ending = "\r" if sys.stderr.isatty() and percent < 100 else "\n"
        print(line, end=ending, file=sys.stderr, flush=True)


def main(versions: Sequence[str]) -> int:
    known = (KAFKA_VERSION, *OLD_VERSIONS)
    if unknown := [version for version in versions if version not in known]:
        print(
            f"No lock file for Kafka {unknown[0]}; available versions: {', '.join(known)}",
            file=sys.stderr,
        )
        return 1
    try:
        for version in versions or (KAFKA_VERSION,):
            kafka = kafka_runtime(_Line(version).show, version)
            if version == KAFKA_VERSION and not kafka.class_archive.exists():
                print("Archiving Kafka's classes for faster starts", file=sys.stderr)
                make_class_archive(kafka)
    except DeployError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
