"""A source topic that is deleted and created again on Kafka 2.4, which has no topic ids, is found
where its log is shorter, in no newer epoch, and not where it has the copied offsets. Kafka 2.8
has ids, with ZooKeeper too, by which it is found there as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from connectors.mirror.config.losses import LossKind, LossPolicies, LossPolicy
from deploy.brokers import KafkaCluster, kafka_runtime
from tests.support.copier.copying import CopyRun
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.losing import history_losses, renew
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, end_offset
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TIMEOUT_S = 60.0
WITHOUT_IDS, WITH_IDS = "2.4.1", "2.8.2"
COPIED, FIRST_NEW = 100, 1_000
FAIL, REPORT, COPY = LossPolicy.FAIL, LossPolicy.REPORT, LossPolicy.COPY


@pytest.fixture(scope="module")
def clusters(session_logs: Path) -> Iterator[dict[str, KafkaCluster]]:
    with ExitStack() as stack:
        yield {
            version: stack.enter_context(
                KafkaCluster(
                    name=f"kafka-{version}",
                    properties={"log.retention.ms": "-1"},
                    kafka=kafka_runtime(version=version),
                    logs=session_logs,
                )
            )
            for version in (WITHOUT_IDS, WITH_IDS)
        }


class Copied:
    """A topic of 100 records, and the run that copied them."""

    def __init__(
        self,
        old: KafkaCluster,
        target: KafkaCluster,
        policy: LossPolicy = REPORT,
    ) -> None:
        self.source, self.target = old.bootstrap_servers, target.bootstrap_servers
        self.topic, self.copy = create_topic(self.source), create_topic(self.target)
        produce(self.source, self.topic, numbered(COPIED))
        self.run = CopyRun(self.source, self.target, losses=LossPolicies(policy))
        self.run.add(self.topic, self.copy)

    def wait(self, records: int) -> None:
        wait_until(
            lambda: end_offset(self.target, self.copy) >= records, TIMEOUT_S, "all is copied"
        )

    @property
    def values(self) -> list[int]:
        return numbers(read_partition(self.target, self.copy))

    @property
    def losses(self) -> list[tuple[LossKind, int, int]]:
        return [(loss.kind, loss.first, loss.end) for loss in self.run.losses]


CREATED_AGAIN = [(LossKind.SOURCE_RECREATED, 0, COPIED)]


@pytest.mark.parametrize("policy", LossPolicy)
def test_a_shorter_log_in_the_same_epoch_is_another_topic(
    clusters: dict[str, KafkaCluster], target_cluster: KafkaCluster, policy: LossPolicy
) -> None:
    copied = Copied(clusters[WITHOUT_IDS], target_cluster, policy)
    with copied.run as run:
        run.wait({(copied.topic, 0): COPIED}, TIMEOUT_S)
        renew(copied.source, copied.topic, 50)
        if policy is FAIL:
            wait_until(lambda: run.losses, TIMEOUT_S, "it is noticed")
        else:
            copied.wait(COPIED + 50)
    assert copied.losses == CREATED_AGAIN
    new = [] if policy is FAIL else list(range(FIRST_NEW, FIRST_NEW + 50))
    assert copied.values == [*range(COPIED), *new]


@pytest.mark.parametrize("version", [WITHOUT_IDS, WITH_IDS])
def test_a_longer_log_in_the_same_epoch_is_found_only_by_its_id(
    clusters: dict[str, KafkaCluster], target_cluster: KafkaCluster, version: str
) -> None:
    copied = Copied(clusters[version], target_cluster)
    new = 150 if version == WITH_IDS else 150 - COPIED
    with copied.run as run:
        run.wait({(copied.topic, 0): COPIED}, TIMEOUT_S)
        run.fetching(on=False)
        renew(copied.source, copied.topic, 150)
        run.fetching(on=True)
        copied.wait(COPIED + new)
    assert copied.losses == (CREATED_AGAIN if version == WITH_IDS else [])
    assert copied.values == [*range(COPIED), *range(FIRST_NEW + 150 - new, FIRST_NEW + 150)]


def test_a_start_finds_a_shorter_log(
    clusters: dict[str, KafkaCluster], target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(clusters[WITHOUT_IDS], target_cluster)
    topic, url = flow.topic(), f"sqlite:///{tmp_path / 'history.db'}"
    produce(flow.source_servers, topic, numbered(COPIED))
    properties = flow.properties({"mirror.history.url": url})
    with running(properties, tmp_path, logs / "before.log") as mirror:
        flow.wait_records(topic, [COPIED], TIMEOUT_S)
        stop_cleanly(mirror, logs / "before.log")
    renew(flow.source_servers, topic, 50)
    with running(properties, tmp_path, logs / "after.log") as mirror:
        flow.wait_records(topic, [COPIED + 50], TIMEOUT_S)
        stop_cleanly(mirror, logs / "after.log")
    copy = read_partition(flow.target_servers, flow.remote(topic))
    assert numbers(copy) == [*range(COPIED), *range(FIRST_NEW, FIRST_NEW + 50)]
    assert history_losses(url) == {(topic, "source.recreated", "report", 0, COPIED - 1, 0)}
