"""Transformations of a mirrored flow: what they change, drop and rename, and what stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import (
    MirroredFlow,
    assert_equal_logs,
    batch_codecs,
    running,
    stop_cleanly,
    topic_configs,
)
from tests.support.flows.transformed import (
    JSON_VALUES,
    SMT,
    TOMBSTONES_AND_TESTS,
    events,
    transforms,
    wait_end,
)
from tests.support.records.groups import commit, latest_checkpoints
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import end_offset, topic_names
from tests.support.waiting import wait_until

ORDERS = {"orders": {"type": f"{SMT}predicates.TopicNameMatches", "pattern": r".*\.orders"}}
ON_ORDERS = {"predicate": "orders"}

OWN = '''
from connect.sdk import ConfigDef, ConfigKey, ConfigType, Transformation

class Upper(Transformation):
    """Writes values in capitals and moves them to a topic that it names."""

    CONFIG_DEF = ConfigDef([ConfigKey("suffix", ConfigType.STRING)])

    def take(self, config):
        self._suffix = config.string("suffix")

    def topic_for(self, topic):
        return topic + self._suffix

    def apply(self, record):
        value = record.value.upper()
        moved = record.with_topic(self.topic_for(record.topic))
        return moved.with_value(record.value_schema, value)
'''

SLOW = """
import time
from connect.sdk import ConfigDef, ConfigKey, ConfigType, Transformation

class Slow(Transformation):
    CONFIG_DEF = ConfigDef([ConfigKey("file", ConfigType.STRING)])

    def take(self, config):
        self._file = open(config.string("file"), "ab", buffering=0)

    def apply(self, record):
        time.sleep(0.002)
        self._file.write(b".")
        return record
"""


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "mirror.log"


def test_fields_of_json_change_and_other_topics_travel_as_bytes(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    orders, plain = flow.topic("orders"), flow.topic("plain")
    produce(
        flow.source_servers,
        orders,
        [
            Record(json.dumps({"id": n, "card": "4711", "note": "x"}).encode(), b"old")
            for n in range(40)
        ],
    )
    produce(flow.source_servers, plain, numbered(300), compression="lz4")
    stages = {
        "mask": {"type": f"{SMT}MaskField$Value", "fields": "card", **ON_ORDERS},
        "drop": {"type": f"{SMT}ReplaceField$Value", "exclude": "note", **ON_ORDERS},
        "from": {
            "type": f"{SMT}InsertField$Value",
            "static.field": "from",
            "static.value": "A",
            **ON_ORDERS,
        },
        "key": {"type": f"{SMT}ValueToKey", "fields": "id", **ON_ORDERS},
        "take": {"type": f"{SMT}ExtractField$Key", "field": "id", **ON_ORDERS},
    }
    writes = {
        "A->B.key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "A->B.mirror.transforms.key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    properties = flow.properties({**transforms(stages, ORDERS), **JSON_VALUES, **writes})
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(orders, [40])
        flow.wait_records(plain, [300])
        stop_cleanly(mirror, log)
    copies = read_partition(flow.target_servers, flow.remote(orders))
    assert [(record.key, json.loads(record.value or b"")) for record in copies] == [
        (b"%d" % n, {"id": n, "card": "", "from": "A"}) for n in range(40)
    ]
    assert_equal_logs(flow, plain)
    assert batch_codecs(flow.target, flow.remote(plain)) == {3}, "as the producer compressed it"


def test_dropped_records_and_new_names_keep_group_offsets_exact(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic("events", configs={"retention.ms": "864000000000"})
    renamed = f"{flow.prefix}-in-b"
    produce(flow.source_servers, topic, events(60), compression="zstd")
    stages = {
        **TOMBSTONES_AND_TESTS,
        "rename": {
            "type": f"{SMT}RegexRouter",
            "regex": rf"{flow.a}\.(.*)\.events",
            "replacement": "$1-in-b",
        },
    }
    kept = [n for n in range(60) if n % 3 and n % 5]
    groups = {f"{flow.prefix}.g{n}": n for n in (0, 1, 2, 3, 9, 10, 11, 30, 58, 59, 60)}
    for group, offset in groups.items():
        commit(flow.source_servers, group, {(topic, 0): offset})
    properties = flow.properties({**transforms(stages), "groups": f"{flow.prefix}.*"})
    with running(properties, tmp_path, log) as mirror:
        wait_end(flow, renamed, len(kept))
        for group, offset in groups.items():
            # A group on a dropped record goes on at the next one.
            expected = (offset, sum(n < offset for n in kept))
            wait_until(
                lambda: latest_checkpoints(flow, group).get((renamed, 0)) == expected,  # noqa: B023
                60,
                f"{group} at {expected}",
            )
        produce(flow.source_servers, topic, [Record(None, b"k")] * 5)
        flow.wait_stored(topic, 0, 64)
        stop_cleanly(mirror, log)
    before = read_partition(flow.source_servers, topic)
    after = read_partition(flow.target_servers, renamed)
    assert contents(after) == contents([before[n] for n in kept])
    assert topic_configs(flow.target_servers, renamed)["retention.ms"] == "864000000000"
    assert flow.remote(topic) not in topic_names(flow.target_servers)


@pytest.mark.parametrize("way", ["skip", "quarantine"])
def test_a_record_that_cannot_be_transformed_is_skipped_or_quarantined(
    flow: MirroredFlow, log: Path, tmp_path: Path, way: str
) -> None:
    topic, aside = flow.topic("orders"), f"{flow.prefix}-aside"
    values = [b'{"n": 1}', b"not JSON", b'{"n": 2}']
    produce(flow.source_servers, topic, [Record(value) for value in values])
    stages = {"hide": {"type": f"{SMT}MaskField$Value", "fields": "n"}}
    tolerance = (
        {"A->B.errors.tolerance": "all", "A->B.errors.log.enable": "true"}
        if way == "skip"
        else {"A->B.mirror.quarantine.topic": aside}
    )
    properties = flow.properties({**transforms(stages), **JSON_VALUES, **tolerance})
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [2])
        flow.wait_stored(topic, 0, 2)
        mirror.stop(30)
    copies = read_partition(flow.target_servers, flow.remote(topic))
    assert [json.loads(record.value or b"") for record in copies] == [{"n": 0}, {"n": 0}]
    if way == "skip":
        assert "VALUE_CONVERTER" in log.read_text()
    else:
        (record,) = read_partition(flow.target_servers, aside)
        assert record.value == b"not JSON"


def test_a_record_that_cannot_be_transformed_stops_its_partition_only(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic("orders", partitions=2)
    produce(flow.source_servers, topic, [Record(b'{"n": 1}'), Record(b"not JSON")])
    produce(flow.source_servers, topic, [Record(b'{"n": 1}', partition=1)] * 3)
    stages = {"hide": {"type": f"{SMT}MaskField$Value", "fields": "n"}}
    with running(flow.properties({**transforms(stages), **JSON_VALUES}), tmp_path, log) as mirror:
        flow.wait_records(topic, [1, 3])
        wait_until(
            lambda: (
                f"{topic}-0: the record at source offset 1 cannot be transformed" in log.read_text()
            ),
            60,
            "the reason in the log",
        )
        mirror.stop(30)
    assert end_offset(flow.target_servers, flow.remote(topic)) == 1


def test_a_transformation_of_ones_own_names_its_topics(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "own_upper.py").write_text(OWN)
    topic = flow.topic("words")
    produce(flow.source_servers, topic, numbered(20))
    properties = flow.properties(
        {
            "B.plugin.path": str(plugins),
            **transforms({"up": {"type": "own_upper.Upper", "suffix": "-up"}}),
        }
    )
    remote = f"{flow.remote(topic)}-up"
    with running(properties, tmp_path, log) as mirror:
        wait_end(flow, remote, 20)
        stop_cleanly(mirror, log)
    values = [record.value for record in read_partition(flow.target_servers, remote)]
    assert values == [b"V%d" % n for n in range(20)]


def test_records_that_take_long_are_transformed_once_and_hold_up_no_other_topic(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    """All of them are one fetch response, which takes longer than a broker may be silent."""
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "own_slow.py").write_text(SLOW)
    counted = tmp_path / "counted"
    slow, other = flow.topic("orders"), flow.topic("other")
    values = [Record(b"%04d" % number + bytes(250)) for number in range(9_000)]
    produce(flow.source_servers, slow, values, batch_records=20)
    stage = {"type": "own_slow.Slow", "file": str(counted), **ON_ORDERS}
    properties = flow.properties(
        {"B.plugin.path": str(plugins), **transforms({"slow": stage}, ORDERS)}
    )
    with running(properties, tmp_path, log) as mirror:
        wait_until(lambda: counted.exists() and counted.stat().st_size, 60, "the first record")
        produce(flow.source_servers, other, numbered(10))
        flow.wait_records(other, [10])
        assert end_offset(flow.target_servers, flow.remote(slow)) < len(values)
        flow.wait_records(slow, [len(values)])
        stop_cleanly(mirror, log)
    assert counted.stat().st_size == len(values)
