"""The command lines of `kafka-mirror-maker` and `kafka-consumer-offset-checker`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from api.cli import kafka_mirror_maker, offset_checker
from connectors.mirrormaker1.client_properties import OLD_CONSUMER_KEYS, OLD_PRODUCER_KEYS
from connectors.mirrormaker1.offset_checker import PartitionRow
from tests.support.docs.pages import DOCS

PAGE = (DOCS / "how-to/move-from-mirrormaker-1.md").read_text()


@pytest.fixture
def both_files(tmp_path: Path) -> list[str]:
    consumer, producer = tmp_path / "c.properties", tmp_path / "p.properties"
    consumer.write_text("bootstrap.servers=127.0.0.1:1\ngroup.id=g\n")
    producer.write_text("bootstrap.servers=127.0.0.1:1\n")
    return ["--consumer.config", str(consumer), "--producer.config", str(producer)]


def parsed(*more: str) -> argparse.Namespace:
    files = ("--consumer.config", "c", "--producer.config", "p")
    return kafka_mirror_maker.option_parser().parse_args([*files, *more])


@pytest.mark.parametrize("option", ["--include", "--whitelist"])
def test_topics_to_include_have_two_names(option: str) -> None:
    assert parsed(f"{option}=.*").include == ".*"


@pytest.mark.parametrize("option", ["--exclude", "--blacklist"])
def test_topics_to_exclude_have_two_names(option: str) -> None:
    assert parsed(option, "a,b").exclude == "a,b"


@pytest.mark.parametrize(
    "option", ["--abort.on.send.failure", "--abort.on.send.fail", "--abortOnSendFail"]
)
@pytest.mark.parametrize(("value", "aborts"), [((), True), (("true",), True), (("false",), False)])
def test_abort_is_the_default_and_has_three_names(
    option: str, value: tuple[str, ...], aborts: bool
) -> None:
    assert parsed().abort is True
    assert parsed(option, *value).abort is aborts


def test_all_former_options_are_accepted() -> None:
    found = parsed(
        *["--new.consumer", "--num.streams", "4", "--num.producers", "2", "--queue.size", "10000"]
    )
    assert (found.streams, found.producers, found.queue) == (4, 2, 10000)


def test_several_consumer_files_mean_several_sources() -> None:
    assert [path.name for path in parsed("--consumer.config", "d").consumers] == ["c", "d"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ([], "Use exactly one of --include (--whitelist) and --exclude (--blacklist)"),
        (["--include", "a", "--exclude", "b"], "Use exactly one of"),
        (["--include", "a["], "Invalid value a[ for --include"),
        (["--include", "a", "--zkconnect", "z:2181"], "Write bootstrap.servers=HOST:9092"),
        (["--include", "a", "--message.handler", "com.example.H"], "write the class in Python"),
    ],
)
def test_a_wrong_command_line_ends_with_1_and_a_reason(
    both_files: list[str], more: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kafka_mirror_maker.main([*both_files, *more]) == 1
    assert reason in capsys.readouterr().err


def test_a_missing_file_ends_with_1(
    both_files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    both_files[1] = "/none/c.properties"
    assert kafka_mirror_maker.main([*both_files, "--include", "a"]) == 1
    assert "Could not read properties from file /none/c.properties" in capsys.readouterr().err


def test_the_checker_prints_the_table_of_the_manual(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        PartitionRow("KafkaMirror", "test-topic", 0, 5, 5, None),
        PartitionRow("KafkaMirror", "test-topic", 1, 3, 10, "mm-0"),
        PartitionRow("KafkaMirror", "test-topic", 2, None, 7, None),
    ]
    offset_checker.print_rows(rows, {1: "dc1:9092"})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"],
        ["KafkaMirror", "test-topic", "0", "5", "5", "0", "none"],
        ["KafkaMirror", "test-topic", "1", "3", "10", "7", "mm-0"],
        ["KafkaMirror", "test-topic", "2", "unknown", "7", "unknown", "none"],
        ["BROKER", "INFO"],
        ["1", "->", "dc1:9092"],
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--group", "g", "--zkconnect", "z:2181"], "--bootstrap-server HOST:9092"),
        (["--group", "g"], "Name a consumer group with --bootstrap-server"),
        (["--config", "f", "--group", "g"], "--config is for flows"),
    ],
)
def test_the_checker_answers_what_it_cannot_do(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offset_checker.main(arguments) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("heading", "parser"),
    [
        ("## Every option", kafka_mirror_maker.option_parser()),
        ("## Watch the lag", offset_checker.option_parser()),
    ],
)
def test_the_pages_table_has_every_option(heading: str, parser: argparse.ArgumentParser) -> None:
    section = PAGE.partition(heading)[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `--")]
    listed = {option for cell in cells for option in re.findall(r"`(--[\w.-]+)", cell)}
    declared = {
        option
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and action.help is not argparse.SUPPRESS
    }
    assert listed == declared


# Of each release of Kafka whose kafka-mirror-maker.sh had other options than the one before.
FORMER_OPTIONS = {
    "0.7": """
        --consumer.config --producer.config --whitelist --blacklist --num.streams
        --num.producers --queue.size --help
    """,
    "0.8.2": """
        --consumer.config --producer.config --whitelist --blacklist --num.streams --queue.size
        --offset.commit.interval.ms --abort.on.send.failure --message.handler
        --message.handler.args --consumer.rebalance.listener --rebalance.listener.args --help
    """,
    "0.9": """
        --consumer.config --producer.config --whitelist --blacklist --num.streams --new.consumer
        --offset.commit.interval.ms --abort.on.send.failure --message.handler
        --message.handler.args --consumer.rebalance.listener --rebalance.listener.args --help
    """,
    "3.9": """
        --consumer.config --producer.config --whitelist --include --num.streams
        --offset.commit.interval.ms --abort.on.send.failure --message.handler
        --message.handler.args --consumer.rebalance.listener --rebalance.listener.args --help
        --version
    """,
}


@pytest.mark.parametrize("release", FORMER_OPTIONS)
def test_the_page_and_the_parser_know_the_options_of_every_release(release: str) -> None:
    section = PAGE.partition("## Every option")[2].partition("\n## ")[0]
    known = {
        option
        for action in kafka_mirror_maker.option_parser()._actions
        for option in action.option_strings
    }
    for option in FORMER_OPTIONS[release].split():
        assert f"`{option}`" in section
        assert option in known


@pytest.mark.parametrize("key", sorted({*OLD_CONSUMER_KEYS, *OLD_PRODUCER_KEYS}))
def test_the_page_names_every_old_key(key: str) -> None:
    assert f"`{key}`" in PAGE.partition("## Every old key")[2]
