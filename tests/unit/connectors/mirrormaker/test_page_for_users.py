"""The page for users of MirrorMaker 2 says of every option of theirs what becomes of it."""

from __future__ import annotations

import re

import pytest

from connectors.mirror.config.checkpoint import CHECKPOINT_TASK_CONFIG_DEF
from connectors.mirror.config.heartbeat import HEARTBEAT_CONFIG_DEF
from connectors.mirror.config.source import SOURCE_TASK_CONFIG_DEF
from tests.support.docs.pages import DOCS

TABLES = (DOCS / "how-to/move-from-java.md").read_text().partition("\n## Every option\n")[2]
ROWS = [line.split("|")[1:3] for line in TABLES.splitlines() if line.startswith("| `")]
LISTED = {name for cells in ROWS for name in re.findall(r"`([^`]+)`", cells[0])}

DEFINITIONS = (SOURCE_TASK_CONFIG_DEF, CHECKPOINT_TASK_CONFIG_DEF, HEARTBEAT_CONFIG_DEF)
UNDECLARED = {"use.defaults.from", "exactly.once.support"}
"""Read from configs as they are, in MirrorMaker 2 as well."""

# What MirrorMaker 2 of Kafka 4.3 declares, taken from its classes' config definitions.
OPTIONS = {
    "common": """
        name connector.class connector.plugin.version tasks.max tasks.max.enforce
        key.converter value.converter header.converter key.converter.plugin.version
        value.converter.plugin.version header.converter.plugin.version transforms predicates
        config.action.reload errors.retry.timeout errors.retry.delay.max.ms errors.tolerance
        errors.log.enable errors.log.include.messages enabled source.cluster.alias
        target.cluster.alias admin.timeout.ms replication.policy.class replication.policy.separator
        replication.policy.internal.topic.separator.enabled forwarding.admin.class metric.reporters
        security.protocol config.providers
    """,
    "source": """
        topics topics.exclude topic.filter.class config.properties.exclude
        config.property.filter.class use.defaults.from consumer.poll.timeout.ms
        refresh.topics.enabled refresh.topics.interval.seconds sync.topic.configs.enabled
        sync.topic.configs.interval.seconds sync.topic.acls.enabled
        sync.topic.acls.interval.seconds replication.factor offset-syncs.topic.replication.factor
        offset-syncs.topic.location offset.lag.max emit.offset-syncs.enabled
        heartbeats.replication.enabled metric.names.formats exactly.once.support
        task.assigned.partitions task.index
    """,
    "checkpoint": """
        groups groups.exclude group.filter.class refresh.groups.enabled
        refresh.groups.interval.seconds emit.checkpoints.enabled emit.checkpoints.interval.seconds
        sync.group.offsets.enabled sync.group.offsets.interval.seconds
        checkpoints.topic.replication.factor task.assigned.groups
    """,
    "heartbeat": """
        emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.topic.replication.factor
    """,
    "file": """
        clusters dedicated.mode.enable.internal.rest listeners rest.advertised.host.name
        rest.advertised.port rest.advertised.listener access.control.allow.origin
        access.control.allow.methods response.http.headers.config
    """,
}
NAMES = {kind: frozenset(text.split()) for kind, text in OPTIONS.items()}


@pytest.mark.parametrize("option", sorted(frozenset().union(*NAMES.values())))
def test_the_page_names_every_option(option: str) -> None:
    assert option in LISTED


def test_the_page_says_of_each_what_it_is_here() -> None:
    assert [cells[0] for cells in ROWS if not cells[1].strip()] == []


def test_no_option_of_theirs_is_missing_here() -> None:
    declared = {name for definition in DEFINITIONS for name in definition.names}
    theirs = {name for kind, names in NAMES.items() for name in names if kind != "file"}
    assert theirs - declared == UNDECLARED


def test_options_here_that_the_page_does_not_name_are_our_own() -> None:
    own = re.compile(
        r"(mirror|ssl|sasl|spark)\.|task\.count|offset-map\.|replication\.policy\.(prefix|suffix|mapping)"
    )
    others = {name for each in DEFINITIONS for name in each.names if not own.match(name)}
    assert others - LISTED == set()
