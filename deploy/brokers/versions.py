"""The Kafka versions whose brokers can be run here, and how they differ.

Each version has a lock file beside this module, `kafka-<version>.lock`. To add one, pin it with
`python -m deploy.brokers.pin VERSION` and list it here.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["KAFKA_VERSION", "OLD_VERSIONS", "has_kraft", "lock_file", "major_minor", "uses_log4j2"]

KAFKA_VERSION = "4.3.1"
"""The version that the demo, tests and benchmarks use, including its Java tools and Connect."""

OLD_VERSIONS = ("2.4.1", "2.8.2", "3.9.1")
"""Other versions that mirrors are tested with. Their lock files contain only the broker's jars."""


def major_minor(version: str) -> tuple[int, int]:
    """Parse `2.8.2` as (2, 8)."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def has_kraft(version: str) -> bool:
    """Whether brokers run without ZooKeeper (KRaft is ready for production since 3.3)."""
    return major_minor(version) >= (3, 3)


def uses_log4j2(version: str) -> bool:
    """Whether brokers log with Log4j 2 (since 4.0). Older versions read a Log4j 1 configuration."""
    return major_minor(version) >= (4, 0)


def lock_file(version: str) -> Path:
    """Return the lock file of a version."""
    return Path(__file__).with_name(f"kafka-{version}.lock")
