"""`python -m deploy.brokers.pin VERSION`: write the lock file for the brokers of an old Kafka
version.

Resolves the broker, its dependencies and a logger from Maven Central with jgo, downloads every jar
into a temporary directory, and writes `kafka-<VERSION>.lock` with their hashes beside this module.
Review the diff before committing it. The lock file of 4.3.1, which includes Connect and the tools,
is maintained separately.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from jgo.maven import Dependency, MavenContext, PythonResolver

from deploy.brokers.versions import lock_file

__all__ = ["line", "main", "resolved"]

_SCALA = "2.13"
# Kafka's own releases use these versions. The broker's jars need Log4j 1 but do not depend on it.
_LOGGING = (
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
    ("ch.qos.reload4j", "reload4j", "1.2.25"),
)


def resolved(roots: Sequence[tuple[str, str, str]], repository: Path) -> list[Dependency]:
    """Return the jars of these (group, artifact, version) and all they depend on, sorted by
    coordinates."""
    context = MavenContext(repo_cache=repository)
    inputs, transitive = PythonResolver().resolve(
        [
            Dependency(context.project(group, name).at_version(wanted).artifact())
            for group, name, wanted in roots
        ]
    )
    found = {(each.groupId, each.artifactId): each for each in [*transitive, *inputs]}
    return [found[key] for key in sorted(found)]


def line(dependency: Dependency) -> str:
    """Return the lock file's line of a jar."""
    path = dependency.artifact.resolve()
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    coordinates = f"{dependency.groupId}:{dependency.artifactId}:{dependency.version}"
    return f"{coordinates} {digest} {len(data)}\n"


def main(version: str) -> int:
    """Write the lock file of `version`. Returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="kafka-pin-") as repository:
        roots = [("org.apache.kafka", f"kafka_{_SCALA}", version), *_LOGGING]
        lines = [line(each) for each in resolved(roots, Path(repository))]
    lock_file(version).write_text(
        f"# Every jar on the class path of the Kafka {version} brokers, and of their ZooKeeper.\n"
        f"# Written by `python -m deploy.brokers.pin {version}`.\n"
        "# One line each: group:artifact:version  SHA-256  size in bytes\n" + "".join(lines)
    )
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python -m deploy.brokers.pin VERSION")
    sys.exit(main(sys.argv[1]))
