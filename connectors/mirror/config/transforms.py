"""The keys of transformations that only a mirror has, and the rules for `transforms` on one."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigKey, ConfigProblem, Importance
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connectors.mirror.topic_routes import check_converters, flow_chain

__all__ = ["CONVERTERS_PREFIX", "TRANSFORM_KEYS", "transform_problems"]

CONVERTERS_PREFIX = "mirror.transforms."

TRANSFORM_KEYS = tuple(
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


def transform_problems(props: Mapping[str, str]) -> list[ConfigProblem]:
    """Return what forbids the transformations in these connector properties."""
    try:
        chain = flow_chain(props)
        check_converters(props, CONVERTERS_PREFIX)
        if chain is not None:
            chain.check_routes()
    except ConfigError as error:
        return [ConfigProblem(error.key or "transforms", str(error))]
    if chain is not None and props.get("mirror.engine") == "spark":
        return [
            ConfigProblem(
                "transforms",
                f"Invalid value {props['transforms']} for configuration transforms: "
                "mirror.engine=spark copies batches as bytes and runs no transformations; set "
                "mirror.engine=worker",
            )
        ]
    return []
