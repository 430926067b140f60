"""What a distributed worker refuses of connectors, beyond what every worker does."""

from __future__ import annotations

import pytest

from connect.clock import Deadline
from connect.config.definition import ConfigDef
from connect.metrics.registry import MetricRegistry
from connect.plugin import SinkConnector, SinkTask
from connect.runtime.distributed.factory import distributed_herder
from connect.runtime.plugins.registry import PluginRegistry
from tests.unit.connect.runtime.distributed.properties import PROPS

GROUP = "connect-workers"


class Anywhere(SinkConnector):
    """Never started."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def task_class(self) -> type[SinkTask]:
        return SinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []


def errors(**config: str) -> dict[str, list[str]]:
    """Of a sink's config, by key."""
    plugins = PluginRegistry(discover=False)
    plugins.register(Anywhere)
    herder = distributed_herder(
        {**PROPS, "group.id": GROUP, "bootstrap.servers": "127.0.0.1:1"},
        plugins,
        MetricRegistry(),
        worker_id="w",
        url="http://w/",
        client=None,
    )
    props = {"connector.class": "Anywhere", "name": "s", "topics": "t", **config}
    try:
        values = [info.value for info in herder.validate(props).configs]
    finally:
        # It was not started, but its group member has a thread and sockets already.
        herder.stop(Deadline(5.0))
    return {value.name: list(value.errors) for value in values if value.errors}


@pytest.mark.parametrize(
    ("config", "key", "group"),
    [
        ({"name": "workers"}, "name", "for sink connector named workers"),
        ({"consumer.override.group.id": GROUP}, "consumer.override.group.id", GROUP),
    ],
)
def test_a_sink_may_not_read_in_the_group_of_the_workers(
    config: dict[str, str], key: str, group: str
) -> None:
    text = f"Consumer group {group} conflicts with Connect worker group {GROUP}"
    assert errors(**config) == {key: [text]}


def test_a_sink_may_read_in_any_other_group() -> None:
    assert errors() == {}
    assert errors(name="workers", **{"consumer.override.group.id": "mine"}) == {}
