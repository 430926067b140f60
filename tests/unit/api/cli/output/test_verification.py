"""What `connect-mirror archive --verify` shows and writes into the history."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from api.cli.output.verification import show_verified
from connect.config.types import SecretStr
from connectors.archive.ledger import ArchivedRange
from connectors.archive.verify import VerifiedRange
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.history import queries
from connectors.mirror.history.jobs import JobHistory


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


RANGES = [
    ArchivedRange("t", 0, start, start + 10, records=10, bytes=2_000_000, checksum=1, file=file)
    for start, file in ((0, "a.parquet"), (10, "b.parquet"))
]


@pytest.mark.parametrize(
    ("problem", "wrong", "row"),
    [
        (None, 0, ("done", "All ranges are as the ledger says", 0)),
        ("checksums differ", 1, ("failed", "1 of 2 ranges differ from the ledger", 1)),
    ],
)
def test_it_shows_a_bar_the_files_that_differ_and_a_row(
    problem: str | None,
    wrong: int,
    row: tuple[str, str, int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    url = f"sqlite:///{tmp_path / 'h.db'}"
    props = {
        "name": "c",
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "s:1",
        "target.cluster.bootstrap.servers": "t:1",
        "mirror.history.url": url,
    }
    told = "" if problem is None else "/archive/a.parquet: checksums differ\n"

    def results() -> Iterator[VerifiedRange]:
        yield VerifiedRange(RANGES[0], problem)
        assert capsys.readouterr().out == told, "told before the next range is read"
        yield VerifiedRange(RANGES[1], None)

    with closing(JobHistory("verification", SourceConfig.from_properties(props))) as history:
        where = lambda each: f"/archive/{each.file}"  # noqa: E731
        assert show_verified(results(), RANGES, where, history) == wrong
    assert "Verifying" in terminal.getvalue()
    assert "4 MB read, 0 MB left" in terminal.getvalue()
    assert not capsys.readouterr().out
    (job,) = queries.flow_jobs(SecretStr(url), "a", "b", 10)
    assert (job["kind"], job["state"], job["text"], job["failed"]) == ("verification", *row)
    assert (job["parts"], job["records"], job["bytes"], job["left_bytes"]) == (2, 20, 4_000_000, 0)
