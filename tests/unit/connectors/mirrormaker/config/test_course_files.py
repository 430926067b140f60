"""Files as courses, blogs and manuals print them: which flows they run, and what is said of them.

`test_precedence.py` compares what they mean with Java's answers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.precedence import MIRROR_CONNECTORS

GOLDEN = Path(__file__).parents[4] / "golden" / "mirror_maker_config"
COURSES: dict[str, list[str]] = {
    "course_one_way": ["primary->backup", "backup->primary"],
    "course_both_ways": ["kafka-A->kafka-B", "kafka-B->kafka-A"],
    "course_names_kept": ["source->target"],
    "course_all_but_one": ["kafka->kafka2", "kafka2->kafka"],
    "course_overrides": ["dc1->dc2", "dc2->dc1"],
    "course_other_keys": ["us-west->us-east"],
    "course_brokers_choose": ["cluster-a->cluster-b"],
}
# Keys that have no effect in Java either; of all others nothing is said.
WITHOUT_EFFECT = {
    "course_overrides": ["producer.buffer.memory", "consumer.fetch.max.bytes"],
    "course_other_keys": [
        "mirrors",
        "us-west->us-east.group.enable",
        "offset.syncs.topic.replication.factor",
    ],
}


def test_each_file_is_here() -> None:
    assert {path.stem for path in GOLDEN.glob("course_*.properties")} == COURSES.keys()


@pytest.mark.parametrize("name", COURSES)
def test_it_is_valid_and_only_keys_without_effect_are_pointed_out(name: str) -> None:
    config = MirrorMakerConfig.from_file(GOLDEN / f"{name}.properties")
    config.validate()
    assert [str(flow) for flow in config.flows()] == COURSES[name]
    assert [warning.split()[0] for warning in config.warnings] == WITHOUT_EFFECT.get(name, [])


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("tasks.max=2    # two at a time", True),
        ("topics=orders # and no others", True),
        ("topics=orders#1", False),
        ('sasl.jaas.config=PlainLoginModule required password="a #b";', False),
    ],
)
def test_a_comment_behind_a_value_is_pointed_out(tmp_path: Path, line: str, warned: bool) -> None:
    """Java takes it for a part of the value, too: a switch that is not true, a topic's name."""
    path = tmp_path / "mm2.properties"
    path.write_text(f"clusters=A,B\n{line}\nB->A.enabled=true\n")
    told = [text for text in MirrorMakerConfig.from_file(path).warnings if "comment" in text]
    key = line.split("=")[0]
    expected = (
        f"{key} (line 2) has a # in its value, which does not start a comment there: put comments "
        "on lines of their own"
    )
    assert told == ([expected] if warned else [])


def test_a_switch_with_a_comment_behind_it_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters=A,B\nA->B.enabled=true  # the first flow\n")
    with pytest.raises(ConfigError) as caught:
        MirrorMakerConfig.from_file(path)
    assert str(caught.value) == (
        "Invalid value true  # the first flow for configuration A->B.enabled (line 2): Expected "
        "value to be either true or false. It has a # in its value, which does not start a "
        "comment there: put comments on lines of their own"
    )


def test_a_blank_behind_true_turns_nothing_off(tmp_path: Path) -> None:
    """Files of some courses have one. Java takes `enabled = true ` for false, and then has nothing
    to run."""
    path = tmp_path / "mm2.properties"
    path.write_text("clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\n")
    with path.open("a") as file:
        file.write("A->B.enabled = true \nemit.heartbeats.enabled = false \n")
    assert [str(flow) for flow in MirrorMakerConfig.from_file(path).flows()] == ["A->B"]


@pytest.mark.parametrize("level", ["", "A->B."])
def test_a_class_in_the_file_changes_no_connector(level: str) -> None:
    """Some pages mix a connector's file with one of dedicated mode. Java then runs three connectors
    of that class, and each copies every record."""
    package = "org.apache.kafka.connect.mirror."
    config = MirrorMakerConfig.from_properties(
        {
            "clusters": "A,B",
            "A.bootstrap.servers": "a:1",
            "B.bootstrap.servers": "b:1",
            "A->B.enabled": "true",
            f"{level}connector.class": f"{package}MirrorSourceConnector",
        }
    )
    for connector in MIRROR_CONNECTORS:
        found = config.connector_config("A", "B", connector)
        assert found["connector.class"] == package + connector
    assert config.warnings == (
        f"{level}connector.class is ignored: each of a flow's connectors has a class of its own",
    )
