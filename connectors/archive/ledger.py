"""The ledger of an archive: which source offsets are archived, and in which files. Pure.

It is a sequence of commits with ascending versions, one JSON file each. A record is archived if and
only if a commit has its range. Ranges of a partition follow each other without a gap, so the next
offset to archive is the end of the last one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from connect.protocol.messages import TopicPartition
from connectors.archive.errors import DamagedArchive

__all__ = [
    "FORMAT_VERSION",
    "ArchivedRange",
    "ArchivedTopic",
    "Commit",
    "Ledger",
    "data_file",
    "version_file",
    "version_of",
]

FORMAT_VERSION = 1

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """A topic as it was when its records were archived. `id`: its topic ID. `configs`: those that a
    copy of it would get."""

    id: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArchivedRange:
    """Source offsets `start` (first) to `end` (exclusive) of a partition, as they are archived.

    `records`: those that a consumer with read_committed sees; the other offsets are control
    records, aborted records, or were removed by compaction. `lost`: offsets at the beginning of the
    range that the source had deleted before. `bytes`: of keys, values and headers as in the log.
    `checksum`: of the records (`connectors.mirror.compare.record_streams.checksum`). `file`: in the
    archive's directory; None if the range has no records, or they are in a table.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: int
    bytes: int
    checksum: int
    lost: int = 0
    file: str | None = None

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def gaps(self) -> int:
        """Return the number of offsets without a record that were not lost."""
        return self.end - self.start - self.records - self.lost

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "checksum": f"{self.checksum:016x}", "gaps": self.gaps}

    @classmethod
    def of_json(cls, plain: Mapping[str, Any]) -> ArchivedRange:
        own = {name: value for name, value in plain.items() if name != "gaps"}
        return cls(**{**own, "checksum": int(plain["checksum"], 16)})


@dataclass(frozen=True, slots=True)
class Commit:
    """The additions of one commit. `topics`: the topics that are new or have changed. `staged`:
    where its files were written, by their final names; after the commit they are moved there, or
    put into a table."""

    version: int
    at_ms: int
    ranges: tuple[ArchivedRange, ...]
    topics: Mapping[str, ArchivedTopic] = field(default_factory=dict)
    staged: Mapping[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        plain = {
            "format": FORMAT_VERSION,
            "version": self.version,
            "at_ms": self.at_ms,
            "topics": {name: asdict(topic) for name, topic in self.topics.items()},
            "ranges": [each.to_json() for each in self.ranges],
            "staged": dict(self.staged),
        }
        return json.dumps(plain, indent=1) + "\n"

    @classmethod
    def of_text(cls, text: str, name: str) -> Commit:
        """Parse a ledger file. `name`: of the file, for errors. Raises `DamagedArchive`."""
        try:
            plain = json.loads(text)
            if plain["format"] != FORMAT_VERSION:
                raise DamagedArchive(
                    f"{name} has format {plain['format']}, this program reads format "
                    f"{FORMAT_VERSION}: use the program's version that wrote the archive, or a "
                    "newer one"
                )
            return cls(
                plain["version"],
                plain["at_ms"],
                tuple(map(ArchivedRange.of_json, plain["ranges"])),
                {topic: ArchivedTopic(**each) for topic, each in plain["topics"].items()},
                plain["staged"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedArchive(
                f"{name} is not a file of the ledger ({error}): restore it from a copy of the "
                "directory, or archive to a new one"
            ) from error


class Ledger:
    """All commits so far. For one thread."""

    def __init__(self, commits: Iterable[Commit] = ()) -> None:
        self.version = 0
        self.topics: dict[str, ArchivedTopic] = {}
        self.ranges: dict[TopicPartition, list[ArchivedRange]] = {}
        for commit in commits:
            self.take(commit)

    def take(self, commit: Commit) -> None:
        """Add the next commit. Raises `DamagedArchive` if it does not follow."""
        if commit.version != self.version + 1:
            raise DamagedArchive(
                f"The ledger lacks version {self.version + 1}: the next file is that of version "
                f"{commit.version}. Restore it from a copy of the directory"
            )
        for each in commit.ranges:
            end = self.end(each.key)
            if end not in (None, each.start) or each.end <= each.start:
                raise DamagedArchive(
                    f"Version {commit.version} of the ledger has offsets {each.start} to "
                    f"{each.end - 1} of {each.topic}-{each.partition}, but {end} is the next one: "
                    "two processes wrote to the directory. Archive to a new one"
                )
            self.ranges.setdefault(each.key, []).append(each)
        self.topics.update(commit.topics)
        self.version = commit.version

    def end(self, key: TopicPartition) -> int | None:
        """Return the first offset that is not archived; None if nothing of the partition is."""
        ranges = self.ranges.get(key)
        return ranges[-1].end if ranges else None

    def start(self, key: TopicPartition) -> int | None:
        """Return the first archived offset; None if nothing of the partition is."""
        ranges = self.ranges.get(key)
        return ranges[0].start if ranges else None

    def has_records(self, key: TopicPartition, start: int, end: int) -> bool:
        """Whether there is a record in a range that has some of these offsets."""
        return any(
            each.records and each.start < end and each.end > start
            for each in self.ranges.get(key, ())
        )

    def files(self, key: TopicPartition, start: int, end: int) -> list[str]:
        """Return the files with records of these offsets, in order. `end` is exclusive."""
        return [
            each.file
            for each in self.ranges.get(key, ())
            if each.file is not None and each.start < end and each.end > start
        ]

    def changed(self, topics: Mapping[str, ArchivedTopic]) -> dict[str, ArchivedTopic]:
        """Return those of these topics that the ledger does not have so."""
        return {name: topic for name, topic in topics.items() if self.topics.get(name) != topic}


def data_file(key: TopicPartition, start: int, end: int) -> str:
    """Return the name of the file with the records of these offsets."""
    topic, partition = key
    return f"data/topic={topic}/partition={partition}/{start:020d}-{end:020d}.parquet"


def version_file(version: int) -> str:
    """Return the name of a commit's file in the ledger's folder."""
    return f"{version:020d}{_SUFFIX}"


def version_of(name: str) -> int | None:
    """Return the version of a file in the ledger's folder; None for other files."""
    number = name.removesuffix(_SUFFIX)
    return int(number) if name.endswith(_SUFFIX) and number.isdigit() else None
