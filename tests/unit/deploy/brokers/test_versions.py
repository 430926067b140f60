"""Which Kafka versions need what."""

from __future__ import annotations

import pytest

from deploy.brokers.versions import (
    KAFKA_VERSION,
    OLD_VERSIONS,
    has_kraft,
    lock_file,
    major_minor,
    uses_log4j2,
)


@pytest.mark.parametrize(
    ("version", "kraft", "log4j2"),
    [
        ("2.4.1", False, False),
        ("2.8.2", False, False),
        ("3.9.1", True, False),
        ("4.3.1", True, True),
        ("10.0.0", True, True),
    ],
)
def test_what_a_version_needs(version: str, kraft: bool, log4j2: bool) -> None:
    assert has_kraft(version) is kraft
    assert uses_log4j2(version) is log4j2


def test_every_version_is_pinned() -> None:
    assert all(lock_file(version).is_file() for version in (KAFKA_VERSION, *OLD_VERSIONS))
    assert major_minor("2.10.3") > major_minor("2.9.0")
