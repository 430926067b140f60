"""Which permissions a file's flows need, and the commands and the page that are made of them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from api.cli import acls
from api.cli.mirror_client import main as mirror_client
from api.cli.program import EXIT_CONFIG
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import plan_flows
from connectors.mirrormaker.permissions import (
    flow_features,
    name_pattern,
    permissions_by_cluster,
)
from connectors.mirrormaker.required_permissions import Feature, Pattern, RequiredPermission
from deploy.site.permissions_reference import renewed
from tests.support.properties_files import properties_text
from tests.support.security.taken_permissions import named_by, without_numbers
from tests.support.security.taken_permissions_page import all_rows, on_page

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "permissions.md"
BASE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a1:9092, a2:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
    "A->B.topics": "orders, pay-[0-9]+",
    "B->A.emit.heartbeats.enabled": "false",
}
ALWAYS = {
    Feature.WORKER,
    Feature.HEARTBEATS,
    Feature.COPYING,
    Feature.NEW_PARTITIONS,
    Feature.OFFSET_MAP,
    Feature.PROVENANCE,
    Feature.GROUP_OFFSETS,
    Feature.COPIED_HEARTBEATS,
    Feature.CONFIG_SYNC,
    Feature.HEARTBEAT_CONFIG_SYNC,
    Feature.ACL_SYNC,
}

CONFIG_SYNCS = {Feature.CONFIG_SYNC, Feature.HEARTBEAT_CONFIG_SYNC}
OF_COPIED_BEATS = {Feature.COPIED_HEARTBEATS, Feature.HEARTBEAT_CONFIG_SYNC}


def config(**changed: str) -> MirrorMakerConfig:
    return MirrorMakerConfig.from_properties({**BASE, **changed})


def in_order(value: dict[str, str] | set[Feature]) -> str:
    """A name of a parameter that is the same in each process."""
    return str(value if isinstance(value, dict) else sorted(each.value for each in value))


def needed(alias: str, **changed: str) -> set[str]:
    return set(map(str, permissions_by_cluster(config(**changed))[alias]))


def test_the_table_of_the_page_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert text == renewed(text), "run: python -m deploy.site"


def test_the_page_has_for_each_permission_the_sentence_that_names_it() -> None:
    """tests/compat/test_permissions_taken_away.py and test_permissions_of_programs.py ask for the
    same sentences."""
    sentences, wanted = on_page(PAGE.read_text()), all_rows()
    assert sentences.keys() == {row.key for row in wanted}, "see taken_permissions_page"
    assert not [row.key for row in wanted if not named_by(row.permission, sentences[row.key])]


def test_no_sentence_of_the_page_has_what_differs_from_run_to_run() -> None:
    sentences = on_page(PAGE.read_text()).values()
    assert not [each for each in sentences if each != without_numbers(each)]


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ("orders", Pattern("orders")),
        ("orders.v1", Pattern("orders.v1")),
        (r"orders\.v1", Pattern("orders.v1")),
        ("orders.*", Pattern("orders", prefixed=True)),
        (r"orders\..*", Pattern("orders.", prefixed=True)),
        ("orders?", Pattern("order", prefixed=True)),
        ("orders[0-9]", Pattern("orders", prefixed=True)),
        (r"orders\d", Pattern("orders", prefixed=True)),
        (".*", Pattern("*")),
        ("(a|b)", Pattern("*")),
        ("ab|cd", Pattern("*")),
        ("[ab]c", Pattern("*")),
        ("(?i)orders", Pattern("*")),
    ],
)
def test_a_pattern_covers_every_name_that_the_expression_matches(
    expression: str, pattern: Pattern
) -> None:
    assert name_pattern(expression) == pattern


@pytest.mark.parametrize(
    ("changed", "more", "less"),
    [
        ({}, set(), set()),
        ({"B.exactly.once.source.support": "enabled"}, {Feature.EXACTLY_ONCE}, set()),
        ({"sync.group.offsets.enabled": "true"}, {Feature.GROUP_SYNC}, set()),
        ({"mirror.quarantine.topic": "q"}, {Feature.QUARANTINE}, set()),
        ({"sync.topic.acls.enabled": "false"}, set(), {Feature.ACL_SYNC}),
        ({"sync.topic.configs.enabled": "false"}, set(), CONFIG_SYNCS),
        ({"refresh.topics.enabled": "false"}, set(), {Feature.NEW_PARTITIONS}),
        ({"heartbeats.replication.enabled": "false"}, set(), OF_COPIED_BEATS),
        ({"emit.heartbeats.enabled": "false"}, set(), {Feature.HEARTBEATS}),
        ({"mirror.offset.map.enabled": "false"}, set(), {Feature.OFFSET_MAP}),
        ({"emit.checkpoints.enabled": "false"}, set(), {Feature.GROUP_OFFSETS}),
    ],
    ids=in_order,
)
def test_the_properties_choose_the_features(
    changed: dict[str, str], more: set[Feature], less: set[Feature]
) -> None:
    made = config(**changed)
    (plan,) = plan_flows(made)
    assert flow_features(made, plan) == (ALWAYS | more) - less


def test_names_follow_policy_location_and_patterns() -> None:
    assert needed("A") >= {
        "Read on topic orders",
        "DescribeConfigs on topic pay-*",
        "Write on topic mm2-offset-syncs.B.internal",
        "Describe on group *",
    }
    assert needed("B") >= {"Create on topic A.orders", "Write on topic A.pay-*"}
    here = needed("B", **{"offset-syncs.topic.location": "target"})
    assert "Read on topic mm2-offset-map.A.internal" in here
    identity = {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    }
    assert "Write on topic orders" in needed("B", **identity)
    once = needed("B", **{"B.exactly.once.source.support": "enabled"})
    assert "Write on transactional id A-mm2-*" in once
    assert "Write on transactional id connect-cluster-A-mm2" in once


def test_the_commands_grant_each_permission_once_and_quote_what_a_shell_would_read() -> None:
    permissions = permissions_by_cluster(config(**{"A->B.topics": ".*"}))["B"]
    lines = list(acls.kafka_acls_commands("b:9092", "User:CN=a b", permissions))
    granted = set()
    for line in lines:
        words = shlex.split(line)
        options = [(word, words[at + 1]) for at, word in enumerate(words[:-1])]
        assert ("--allow-principal", "User:CN=a b") in options
        operations = [value for option, value in options if option == "--operation"]
        kind = next(w for w in words if w in ("--topic", "--group", "--cluster"))
        name = "" if kind == "--cluster" else words[words.index(kind) + 1]
        prefixed = words[-1] == "prefixed"
        granted |= {(kind[2:], Pattern(name, prefixed), operation) for operation in operations}

    def as_words(each: RequiredPermission) -> tuple[str, Pattern, str]:
        return each.resource.value, each.pattern, str(each.operation)

    assert granted == set(map(as_words, permissions))


def test_the_command_prints_what_each_cluster_must_grant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(properties_text(BASE))
    arguments = ["acls", "--config", str(path), "--principal", "User:mirror"]
    assert mirror_client([*arguments, "--cluster", "A"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# cluster A"
    assert lines[1].startswith("kafka-acls.sh --bootstrap-server a1:9092,a2:9092 ")
    assert mirror_client([*arguments, "--with", "backfill"]) == 0
    assert "--group A-mm2-backfill" in capsys.readouterr().out
    assert mirror_client([*arguments, "--with", "translate-commit", "--cluster", "B"]) == 0
    assert "--operation Read --topic A.orders" in capsys.readouterr().out
    assert mirror_client([*arguments, "--cluster", "C"]) == EXIT_CONFIG
    assert "use one of A, B" in capsys.readouterr().err
    assert mirror_client([*arguments[:-1], "mirror"]) == EXIT_CONFIG
    assert "User:mirror" in capsys.readouterr().err
