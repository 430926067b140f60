"""Class names in configs: Java's, Python's, and the short forms."""

from __future__ import annotations

import pytest

from connect.data.converters.base import Converter
from connect.data.converters.byte_array import ByteArrayConverter
from connect.errors import ConfigError
from connect.runtime.plugins.registry import PluginRegistry
from tests.support.workers.plugins import LaneConnector, TransferLaneConnector

JAVA_NAME = "org.example.OrdersConnector"


@pytest.fixture
def plugins() -> PluginRegistry:
    registry = PluginRegistry(discover=False)
    registry.register(LaneConnector, JAVA_NAME)
    return registry


@pytest.mark.parametrize(
    "name",
    [JAVA_NAME, "OrdersConnector", "Orders", "tests.support.workers.plugins.LaneConnector", "Lane"],
)
def test_a_connector_has_many_names(plugins: PluginRegistry, name: str) -> None:
    assert plugins.connector(name) is LaneConnector


def test_the_java_class_is_the_name_to_write(plugins: PluginRegistry) -> None:
    assert plugins.name_of(LaneConnector) == JAVA_NAME
    assert (
        plugins.name_of(TransferLaneConnector)
        == "tests.support.workers.plugins.TransferLaneConnector"
    )


@pytest.mark.parametrize(
    "name",
    ["org.apache.kafka.connect.converters.ByteArrayConverter", "ByteArrayConverter", "ByteArray"],
)
def test_the_byte_array_converter_is_always_there(plugins: PluginRegistry, name: str) -> None:
    assert plugins.find(Converter, name, "key.converter") is ByteArrayConverter


def test_an_unknown_name_is_refused_with_what_there_is(plugins: PluginRegistry) -> None:
    with pytest.raises(ConfigError) as caught:
        plugins.connector("Nope")
    assert str(caught.value) == (
        "Invalid value Nope for configuration connector.class: no connector of this name is"
        f" installed; available are: {JAVA_NAME}"
    )
    assert (caught.value.key, caught.value.value) == ("connector.class", "Nope")


def test_a_converter_is_no_connector(plugins: PluginRegistry) -> None:
    with pytest.raises(ConfigError, match="no connector of this name"):
        plugins.connector("ByteArrayConverter")


def test_a_short_name_of_two_classes_asks_for_the_full_one(plugins: PluginRegistry) -> None:
    plugins.register(TransferLaneConnector, "com.example.OrdersConnector")
    with pytest.raises(ConfigError, match=r"com\.example\.OrdersConnector, org\.example\.Orders"):
        plugins.connector("Orders")
    assert plugins.connector("com.example.OrdersConnector") is TransferLaneConnector


def test_registering_again_changes_nothing(plugins: PluginRegistry) -> None:
    plugins.register(LaneConnector, JAVA_NAME)
    assert plugins.connector("Orders") is LaneConnector
