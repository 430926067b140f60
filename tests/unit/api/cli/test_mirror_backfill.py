"""The backfill's command line, and how it tells how far it is."""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from api.cli.jobs.copy_jobs import size_of
from api.cli.mirror_backfill import main, partitions_of
from api.cli.output.backfill import ProgressView, progress_text, size_text, to_json
from api.cli.output.formats import write_json
from api.cli.program import EXIT_CONFIG, EXIT_USAGE
from connect.errors import ConfigError, ConnectError
from connectors.mirror.backfill.progress import JobProgress
from connectors.mirror.backfill.request import parse_offset_time
from connectors.mirror.backfill.scheduler import PartitionJob
from tests.support.fake_clock import FakeClock

NOW = 1_763_740_800_000  # 2025-11-21T16:00Z


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("800000", 800_000),
        ("50MB/s", 50_000_000),
        ("50m", 50_000_000),
        ("1.5GiB", 1.5 * 2**30),
        ("2 kB", 2000),
    ],
)
def test_sizes(text: str, size: float) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "fast", "-5", "0", "5 parsecs"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="use for example 50MB"):
        size_of(text)


def test_partitions() -> None:
    assert partitions_of("0,2-4") == {0, 2, 3, 4}
    for text in ("", "a", "4-2", "-1"):
        with pytest.raises(argparse.ArgumentTypeError, match="use for example 0"):
            partitions_of(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("36h", NOW - 36 * 3_600_000),
        ("2w", NOW - 14 * 86_400_000),
        ("1763740800000", NOW),
        ("2025-11-21T16:00", NOW),
        ("2025-11-21T17:00+01:00", NOW),
        ("2025-11-21", NOW - 16 * 3_600_000),
    ],
)
def test_times(text: str, moment: int) -> None:
    assert parse_offset_time(text, "--since", NOW) == moment


def test_what_is_no_time_names_the_key() -> None:
    with pytest.raises(
        ConfigError, match=r"Invalid value yesterday for --until\. Use a time such as 2026"
    ):
        parse_offset_time("yesterday", "--until", NOW)


def test_wrong_usage(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([]) == EXIT_USAGE
    assert main(["x", "--since", "1h", "--from", "3"]) == EXIT_USAGE
    assert main([str(tmp_path / "none.properties")]) == EXIT_CONFIG
    told = capfd.readouterr().err
    assert "--since and --from exclude each other: use one of them" in told
    assert "none.properties" in told


PROGRESS = JobProgress(
    partitions=12,
    done=3,
    failed=0,
    copied_records=7,
    copied_bytes=25_000_000,
    left_bytes=75_000_000,
    left_offsets=100,
    rate=10_000_000.0,
    left_s=7.5,
    seconds=2.5,
)


def test_it_tells_bytes_left_rate_and_arrival() -> None:
    text = progress_text(PROGRESS, NOW)
    assert text.startswith(" 25%, 25.0 MB of 100.0 MB, 75.0 MB left, 10.0 MB/s, 0:00:08 to go, ")
    assert text.endswith("3 of 12 partitions done")
    stuck = progress_text(replace(PROGRESS, rate=0.0, left_s=None, failed=2, lost=5), NOW)
    assert "no progress now" in stuck
    assert stuck.endswith("2 FAILED, 5 offsets LOST")
    begun = replace(PROGRESS, copied_bytes=0, rate=0.0, left_s=None)
    assert "/s, starting, " in progress_text(begun, NOW)
    assert "no progress now" in progress_text(replace(begun, seconds=61.0), NOW)
    over = progress_text(replace(PROGRESS, left_bytes=0, left_offsets=0, left_s=0.0), NOW)
    assert over.startswith("100%")
    assert "to go" not in over


def test_where_there_is_no_terminal_it_writes_a_line_now_and_then() -> None:
    out, clock = io.StringIO(), FakeClock()
    view = ProgressView(out, clock)
    for _ in range(25):
        view.show(PROGRESS)
        clock.advance(1.0)
    view.say("waiting")
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == "waiting"


def test_sizes_for_people() -> None:
    assert [size_text(n) for n in (0, 999, 1000, 1_234_567, 5e18)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.2 MB",
        "5000.0 PB",
    ]


def test_the_json_has_each_partition_and_replaces_the_file_whole(tmp_path: Path) -> None:
    job = PartitionJob(("t", 1), ("a.t", 1), 5, 105, 55, 10.0)
    file = tmp_path / "state.json"
    file.write_text("before")
    write_json(file, to_json([job], PROGRESS))
    found = json.loads(file.read_text())
    assert found["left_bytes"] == 75_000_000
    (partition,) = found["partitions"]
    assert (partition["topic"], partition["partition"], partition["position"]) == ("t", 1, 55)
    assert partition["loss_at_ms"] is None
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ConnectError, match="Cannot write --json"):
        write_json(tmp_path / "none" / "state.json", {})


def test_a_link_such_as_dev_stdout_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    file, link = tmp_path / "state.json", tmp_path / "link"
    file.write_text("before")
    link.symlink_to(file)
    write_json(link, {"left": 1})
    assert link.is_symlink()
    assert json.loads(file.read_text()) == {"left": 1}
