"""The keys of transformations that only a mirror has, and the rules for `transforms` on one."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

from connect.config.definition import ConfigKey, ConfigProblem, Importance
from connect.config.types import ConfigType, invalid_value
from connect.errors import ConfigError
from connectors.mirror.config.engine import copies_on_spark
from connectors.mirror.topic_routes import (
    TRANSFORM_KEY,
    TRANSFORM_TOPICS,
    check_converters,
    flow_chain,
    transformed_by_spark,
)

__all__ = [
    "CONVERTERS_PREFIX",
    "TRANSFORM_KEYS",
    "TransformForm",
    "transform_form",
    "transform_problems",
    "wrong_transform",
]

CONVERTERS_PREFIX = "mirror.transforms."

_CONVERTER_KEYS = tuple(
    ConfigKey(
        f"{CONVERTERS_PREFIX}{use}.converter",
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc=f"Converter that reads the source's {what} for `transforms`, with its own keys below "
        f"it; also writes them, unless `{use}.converter` names another. Without it transformations "
        "get bytes, as in MirrorMaker 2. Not a key of MirrorMaker 2.",
    )
    for use, what in (("key", "keys"), ("value", "values"), ("header", "headers"))
)

TRANSFORM_KEYS = (
    *_CONVERTER_KEYS,
    ConfigKey(
        TRANSFORM_KEY,
        ConfigType.STRING,
        None,
        importance=Importance.MEDIUM,
        doc="How Spark changes the flow's records, with Spark as the engine: a SELECT from the "
        "table `records`, or a Python function that gets it as a DataFrame and returns one: "
        "`/path/file.py:function`, `package.module:function`, or an entry point. Before "
        "`transforms`. In a connector's config only if the worker's properties have the same "
        "value. Not a key of MirrorMaker 2.",
    ),
    TRANSFORM_TOPICS,
)

_SQL = re.compile(r"\s*(select|with)\b", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_]\w*)?|[\w.-]+", re.ASCII)
_FILE = re.compile(r".+\.py:[A-Za-z_]\w*", re.ASCII)


class TransformForm(enum.Enum):
    """The kinds of values that `mirror.transform` can have."""

    SQL = "SQL"
    FILE = "file"
    NAME = "name"


def transform_form(value: str) -> TransformForm:
    """Return the form of this value. Raises `ConfigError` for one that has none."""
    if _SQL.match(value):
        return TransformForm.SQL
    if _FILE.fullmatch(value):
        return TransformForm.FILE
    if _NAME.fullmatch(value):
        return TransformForm.NAME
    raise wrong_transform(
        value,
        "it must be a SELECT, /path/file.py:function, package.module:function, or the name of an "
        "entry point",
    )


def wrong_transform(value: str, reason: str) -> ConfigError:
    """Return the error for a value of `mirror.transform`."""
    return invalid_value(TRANSFORM_KEY, value, reason)


def transform_problems(props: Mapping[str, str]) -> list[ConfigProblem]:
    """Return what forbids the transformations in these connector properties."""
    try:
        chain = flow_chain(props)
        check_converters(props, CONVERTERS_PREFIX)
        if chain is not None:
            chain.check_routes()
        by_spark = transformed_by_spark(props)
        if by_spark is not None:
            value = props[TRANSFORM_KEY].strip()
            transform_form(value)
            if not copies_on_spark(props):
                raise wrong_transform(value, "it needs Spark: set mirror.engine=spark")
    except ConfigError as error:
        return [ConfigProblem(error.key or "transforms", str(error))]
    return []
