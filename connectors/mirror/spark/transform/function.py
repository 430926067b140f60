"""Loads what `mirror.transform` names: a SELECT, or a Python function from DataFrame to DataFrame.

Naming a function is naming code. So the property is the operator's: `config.permissions` refuses it
in a connector's config that comes through REST. Runs on the driver.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import uuid
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pyspark  # noqa: F401 - before its parts
from pyspark import cloudpickle
from pyspark.sql import DataFrame

from connect.errors import ConfigError
from connectors.mirror.config.transforms import TransformForm, transform_form, wrong_transform

__all__ = ["ENTRY_POINTS", "FrameTransform", "load_transform"]

ENTRY_POINTS = "kafka_connect_mirror.transforms"
"""The group of entry points in which packages name their functions."""

FrameTransform = Callable[[DataFrame], DataFrame]
"""Returns what becomes of the records of one shard; called for each shard, on several threads."""


def load_transform(value: str) -> FrameTransform:
    """Return the transformation that this value of `mirror.transform` names. Raises `ConfigError`
    if there is none."""
    form = transform_form(value)
    if form is TransformForm.SQL:
        return _selected(value)
    try:
        found = _in_file(value) if form is TransformForm.FILE else _named(value)
    except ConfigError:
        raise
    except Exception as error:  # Whatever the module raises while it is imported.
        raise wrong_transform(value, f"{type(error).__name__}: {error}") from error
    if not callable(found):
        raise wrong_transform(value, "it is not a function")
    module = sys.modules.get(getattr(found, "__module__", None) or "")
    if module is not None:
        # Executors need not have the module that the function and its helpers are in.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    function: FrameTransform = found
    return function


def _named(value: str) -> object:
    """Return an entry point, or the function of an installed module."""
    loaded = [each.load() for each in entry_points(group=ENTRY_POINTS, name=value)]
    if loaded:
        return loaded[0]
    module_name, colon, name = value.partition(":")
    if not colon:
        raise wrong_transform(value, f"there is no entry point {value} in {ENTRY_POINTS}")
    return _attribute(value, importlib.import_module(module_name), name)


def _in_file(value: str) -> object:
    path_text, _, name = value.rpartition(":")
    path = Path(path_text)
    if not path.is_file():
        raise wrong_transform(value, f"there is no file {path}")
    own = f"mirror_transform_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(own, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    spec.loader.exec_module(module)
    return _attribute(value, module, name)


def _attribute(value: str, module: ModuleType, name: str) -> object:
    found: object = getattr(module, name, None)
    if found is None:
        raise wrong_transform(value, f"it has no function {name}")
    return found


def _selected(value: str) -> FrameTransform:
    query = value.strip().rstrip(";")

    def select(records: DataFrame) -> DataFrame:
        # Shards are planned on several threads of one session, so each has a view of its own.
        session, view = records.sparkSession, f"records_{uuid.uuid4().hex}"
        records.createTempView(view)
        try:
            return session.sql(
                f"WITH records AS (SELECT * FROM {view}) SELECT * FROM (\n{query}\n)"
            )
        finally:
            session.catalog.dropTempView(view)

    return select
