"""What plugin writers import."""

from __future__ import annotations

import inspect

import connect.sdk
from connect.runtime.plugins.kinds import PLUGIN_BASES
from connect.sdk import Connector, SinkConnector, SourceConnector


def test_every_kind_of_plugin_can_be_written_with_it() -> None:
    offered = [getattr(connect.sdk, name) for name in connect.sdk.__all__]
    for base in (*PLUGIN_BASES, SourceConnector, SinkConnector):
        assert base in offered


def test_everything_offered_says_what_it_is_for() -> None:
    for name in connect.sdk.__all__:
        offered = getattr(connect.sdk, name)
        if inspect.isclass(offered) and offered.__module__.startswith("connect."):
            assert offered.__doc__, name


def test_connectors_say_which_way_records_go() -> None:
    assert issubclass(SourceConnector, Connector)
    assert SourceConnector.connector_type() == "source"
    assert SinkConnector.connector_type() == "sink"
