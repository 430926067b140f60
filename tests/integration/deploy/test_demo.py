"""The demo as a newcomer runs it: by its command, on real clusters."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deploy.brokers import KafkaRuntime
from tests.support.waiting import wait_until

_RUN_S = 300.0
_END_S = 60.0
# More than is compared of each partition, and a fifth of the CPU of making and copying all.
_SMALL = {"DEMO_BACKLOG": "0.2"}

# A demo of half a minute takes minutes where the machine is busy.
pytestmark = pytest.mark.timeout(400)


class Demo:
    """A running demo, its output, and whatever it started."""

    def __init__(self, directory: Path, environment: dict[str, str], *arguments: str) -> None:
        self.output = directory / "output"
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "deploy.demo", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment, "TMPDIR": str(self.temporary)},
                start_new_session=True,
            )
        self.family: set[psutil.Process] = set()

    def text(self) -> str:
        return self.output.read_text()

    def wait_for(self, words: str) -> None:
        def said() -> bool:
            self.look()
            assert self.process.poll() is None, self.text()
            return words in self.text()

        wait_until(said, _RUN_S, f"the demo says {words!r}")

    def look(self) -> None:
        """Remember all processes it has started so far."""
        try:
            self.family.update(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return

    def wait(self, timeout_s: float) -> int:
        def ended() -> bool:
            self.look()
            return self.process.poll() is not None

        wait_until(ended, timeout_s, "the demo ends")
        return self.process.wait(0)

    def leftovers(self) -> list[str]:
        """Processes that still run, and files that are still there."""
        _, alive = psutil.wait_procs(list(self.family), timeout=5)
        return [str(p) for p in alive] + [str(path) for path in self.temporary.iterdir()]


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="demo-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def test_a_short_run_gets_in_sync_compares_and_leaves_nothing_behind(
    kafka: KafkaRuntime, directory: Path
) -> None:
    demo = Demo(directory, {**_SMALL, "DEMO_SECONDS": "5"})

    assert demo.wait(_RUN_S) == 0, demo.text()
    text = demo.text()
    assert "All partitions are in sync" in text
    assert "newest records of all 19 are equal" in text
    found = re.search(r"Compared record by record: ([\d,]+) equal, none different", text)
    assert found is not None, text
    assert int(found[1].replace(",", "")) > 30_000
    moved = re.search(r"read ([\d,]+) payments in paris, .* other ([\d,]+) in tokyo: each", text)
    assert moved is not None, text
    for topic in ("orders", "clicks", "logs", "payments", "users"):
        assert f"  {topic}: source end" in text
    assert any("connect-mirror-maker" in line for line in text.splitlines())
    assert len(demo.family) >= 6, "two brokers, a producer and a mirror, each with its guard"
    assert demo.leftovers() == []


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "Starting two Kafka"),
        pytest.param(signal.SIGINT, "Producing a backlog", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, "Starting: connect-mirror-maker", marks=pytest.mark.slow),
        (signal.SIGTERM, "Copying the backlog"),
    ],
)
def test_a_signal_at_any_moment_ends_it_with_status_0_and_nothing_left(
    kafka: KafkaRuntime, directory: Path, number: int, moment: str
) -> None:
    demo = Demo(directory, _SMALL)
    demo.wait_for(moment)
    demo.process.send_signal(number)

    assert demo.wait(_END_S) == 0, demo.text()
    assert "Traceback" not in demo.text()
    assert demo.leftovers() == []


@pytest.mark.slow
def test_a_cluster_that_was_killed_is_said_not_to_answer(
    kafka: KafkaRuntime, directory: Path
) -> None:
    demo = Demo(directory, _SMALL)
    demo.wait_for("All partitions are in sync")
    (paris,) = [
        process
        for process in demo.family
        if process.name() == "java" and any("paris" in part for part in process.cmdline())
    ]
    paris.kill()
    demo.wait_for("paris not answering")
    demo.process.send_signal(signal.SIGINT)
    demo.wait(_RUN_S)
    text = demo.text()
    assert "source end 0," not in text[text.index("All partitions are in sync") :]
    (footer, *_) = re.findall(r".*paris not answering.*", text)
    assert ", lag ?, " in footer
    assert demo.leftovers() == []


@pytest.mark.slow
def test_workers_lose_their_leader_while_they_copy_and_nothing_is_lost(
    kafka: KafkaRuntime, directory: Path
) -> None:
    demo = Demo(directory, {}, "cluster")

    assert demo.wait(_RUN_S) == 0, demo.text()
    text = demo.text()
    assert re.search(r"kill -9 \d+: worker \d, the leader, which runs \d of 6", text), text
    assert "later all tasks run on the other two workers" in text
    assert "the newest records of all 19 partitions are equal" in text
    assert re.search(r"Worker \d has its share again", text), text
    found = re.search(r"No record is lost: ([\d,]+) records were compared one by one", text)
    assert found is not None, text
    assert int(found[1].replace(",", "")) > 650_000
    assert demo.leftovers() == []


@pytest.mark.slow
def test_a_signal_after_the_kill_ends_the_workers_too(kafka: KafkaRuntime, directory: Path) -> None:
    demo = Demo(directory, {}, "cluster")
    demo.wait_for("kill -9")
    demo.process.send_signal(signal.SIGINT)

    assert demo.wait(_END_S) == 0, demo.text()
    assert (
        "The records were not compared, because the demo was stopped before the end" in demo.text()
    )
    assert demo.leftovers() == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_history_and_live_flow_on_spark_are_audited_and_a_changed_record_is_named(
    kafka: KafkaRuntime, directory: Path
) -> None:
    demo = Demo(directory, {"DEMO_BACKLOG": "0.3"}, "spark")

    assert demo.wait(840) == 0, demo.text()
    text = demo.text()
    assert "Backfill of clicks: 90,000 existing records" in text
    assert "followed its source" in text
    assert "computed by: spark" in text
    assert re.search(r"tokyo: each payment once; translated by: spark", text), text
    assert re.search(r"Audit \(\d+ s\): Complete: [\d,]+ records are equal", text), text
    found = re.search(r"Changed one byte of the record at offset (\d+) of paris.logs-0", text)
    assert found is not None, text
    assert f"1 record changed, at source offset {found[1]} and target offset {found[1]}" in text
    assert demo.leftovers() == []


def test_a_failed_download_is_one_sentence_and_status_1(directory: Path) -> None:
    environment = {
        "KAFKA_JARS_URL": (directory / "nothing").as_uri(),
        "KAFKA_CONNECT_MIRROR_CACHE": str(directory / "cache"),
    }
    demo = Demo(directory, environment)

    assert demo.wait(_END_S) == 1, demo.text()
    assert demo.text().splitlines()[-1].startswith("Cannot download ")
    assert "Traceback" not in demo.text()
    assert demo.leftovers() == []


def test_a_wrong_demo_seconds_is_one_sentence_and_status_1(directory: Path) -> None:
    demo = Demo(directory, {"DEMO_SECONDS": "soon"})

    assert demo.wait(_END_S) == 1
    assert demo.text().splitlines() == [demo.text().strip()]
    assert "Invalid value soon for DEMO_SECONDS" in demo.text()
