"""Reasons why an archive or a restore is refused.

ConnectError
└── ArchiveRefused            fatal: the message says what to do first
    ├── AnotherArchive        another process archives the same flow, or writes the same directory
    ├── DamagedArchive        the directory is not what the ledger says
    ├── NotThisCluster        the directory has records of another cluster
    └── TopicChanged          a topic was re-created or truncated since it was archived
"""

from __future__ import annotations

from connect.errors import ConnectError

__all__ = [
    "AnotherArchive",
    "ArchiveRefused",
    "DamagedArchive",
    "NotThisCluster",
    "TopicChanged",
]


class ArchiveRefused(ConnectError):
    """Nothing was archived or restored. The message names the directory or the topic, and the
    remedy."""


class AnotherArchive(ArchiveRefused):
    """Two processes would archive the same records."""


class DamagedArchive(ArchiveRefused):
    """A file of the archive is missing or has another content than the ledger says."""


class NotThisCluster(ArchiveRefused):
    """The archive has records of another cluster, whose offsets mean other records."""


class TopicChanged(ArchiveRefused):
    """The archived offsets of a topic mean other records now."""
