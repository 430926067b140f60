"""Plugins of other people: in directories of plugin.path, and in installed packages."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.runtime.plugins.registry import PluginKind, PluginRegistry

CONVERTER = '''
from connect.sdk import Converter, Schema, SchemaAndValue

class {name}Converter(Converter):
    """Gives everything back."""

    def to_bytes(self, topic, value, schema=None):
        return value

    def from_bytes(self, topic, data):
        return SchemaAndValue(None, data)

class _HiddenConverter({name}Converter):
    pass
'''


@pytest.fixture(autouse=True)
def _same_modules() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def found(*directories: Path) -> dict[str, str]:
    """The converters that are not ours, with their versions."""
    registry = PluginRegistry(plugin_path=[str(directory) for directory in directories])
    return {
        entry.name: entry.version
        for entry in registry.all(PluginKind.CONVERTER)
        if not entry.name.startswith("org.apache.kafka.")
    }


def test_modules_and_packages_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "alone_plugin.py").write_text(CONVERTER.format(name="Alone"))
    package = tmp_path / "packed_plugin"
    package.mkdir()
    (package / "__init__.py").write_text("from packed_plugin.inner import PackedConverter\n")
    (package / "inner.py").write_text(CONVERTER.format(name="Packed"))
    assert found(tmp_path) == {
        "alone_plugin.AloneConverter": "undefined",
        "packed_plugin.inner.PackedConverter": "undefined",
    }


def test_directories_in_a_directory_as_java_has_them(tmp_path: Path) -> None:
    plugin = tmp_path / "my-plugin-1.0"
    plugin.mkdir()
    (plugin / "nested_plugin.py").write_text(CONVERTER.format(name="Nested"))
    assert set(found(tmp_path)) == {"nested_plugin.NestedConverter"}


def test_a_wheel_with_its_version(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "wheeled_plugin-2.5-py3-none-any.whl", "w") as wheel:
        wheel.writestr("wheeled_plugin/__init__.py", CONVERTER.format(name="Wheeled"))
        wheel.writestr(
            "wheeled_plugin-2.5.dist-info/METADATA", "Name: wheeled-plugin\nVersion: 2.5\n"
        )
    assert found(tmp_path) == {"wheeled_plugin.WheeledConverter": "2.5"}


def test_entry_points_name_classes_or_functions(tmp_path: Path) -> None:
    (tmp_path / "pointed_plugin.py").write_text(
        CONVERTER.format(name="Pointed")
        + "def register(registry):\n"
        + "    registry.register(_HiddenConverter, 'org.example.Shown')\n"
    )
    info = tmp_path / "pointed_plugin-1.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: pointed-plugin\nVersion: 1.1\n")
    (info / "entry_points.txt").write_text(
        "[kafka_connect_mirror.plugins]\n"
        "one = pointed_plugin:PointedConverter\n"
        "more = pointed_plugin:register\n"
        "broken = pointed_plugin:nothing_here\n"
    )
    assert found(tmp_path) == {
        "pointed_plugin.PointedConverter": "1.1",
        "org.example.Shown": "undefined",
    }


def test_a_broken_plugin_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a_broken_plugin.py").write_text("raise RuntimeError('no luck')\n")
    (tmp_path / "b_good_plugin.py").write_text(CONVERTER.format(name="Good"))
    (tmp_path / "c_broken_plugin-1-py3-none-any.whl").write_bytes(b"no zip")
    assert set(found(tmp_path, tmp_path / "none")) == {"b_good_plugin.GoodConverter"}
    assert "a_broken_plugin in" in caplog.text
    assert "no luck" in caplog.text
    assert "c_broken_plugin-1-py3-none-any.whl: " in caplog.text
    assert "none, which is not a directory" in caplog.text


def test_a_module_that_another_one_hides_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "json.py").write_text(CONVERTER.format(name="Hidden"))
    assert found(tmp_path) == {}
    assert "a module of the same name is already loaded from" in caplog.text


def test_this_projects_own_connectors_are_found_without_a_path() -> None:
    names = {entry.name for entry in PluginRegistry().all(PluginKind.SOURCE)}
    assert "org.apache.kafka.connect.mirror.MirrorSourceConnector" in names
