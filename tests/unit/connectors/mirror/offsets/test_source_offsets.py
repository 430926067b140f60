"""Which offsets users may set for the mirror's connectors."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConnectError
from connectors.mirror.heartbeat import MirrorHeartbeatConnector
from connectors.mirror.source.connector import MirrorSourceConnector

AT: dict[str, Any] = {"cluster": "a", "topic": "t", "partition": 3}
FLOW: dict[str, Any] = {"sourceClusterAlias": "a", "targetClusterAlias": "b"}


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        (AT, {"offset": 0}),
        ({**AT, "more": True}, {"offset": 2**40, "more": 1}),
        (AT, None),
        (None, None),
        ({"garbage": 1.5}, None),
    ],
)
def test_offsets_that_the_source_takes(partition: Any, offset: Any) -> None:
    assert MirrorSourceConnector.alter_offsets({}, [(partition, offset)])


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        (None, {"offset": 0}),
        ({**AT, "cluster": 1}, {"offset": 0}),
        ({"topic": "t", "partition": 3}, {"offset": 0}),
        ({**AT, "topic": None}, {"offset": 0}),
        ({**AT, "partition": "3"}, {"offset": 0}),
        ({**AT, "partition": 3.0}, {"offset": 0}),
        ({**AT, "partition": True}, {"offset": 0}),
        ({**AT, "partition": -1}, {"offset": 0}),
        ({**AT, "partition": 2**31}, {"offset": 0}),
        (AT, {}),
        (AT, {"offset": None}),
        (AT, {"offset": "1"}),
        (AT, {"offset": 1.0}),
        (AT, {"offset": -1}),
    ],
)
def test_offsets_that_it_refuses(partition: Any, offset: Any) -> None:
    with pytest.raises(ConnectError):
        MirrorSourceConnector.alter_offsets({}, [(AT, {"offset": 1}), (partition, offset)])


def test_a_heartbeats_offset_is_always_0() -> None:
    assert MirrorHeartbeatConnector.alter_offsets({}, [(FLOW, {"offset": 0}), (None, None)])
    for partition, offset in ((FLOW, {"offset": 1}), ({}, {"offset": 0}), (None, {"offset": 0})):
        with pytest.raises(ConnectError):
            MirrorHeartbeatConnector.alter_offsets({}, [(partition, offset)])
