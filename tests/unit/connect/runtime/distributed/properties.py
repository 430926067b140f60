"""A distributed worker's properties, for tests."""

from connect.runtime.distributed.group_config import DistributedConfig

__all__ = ["PROPS", "config"]


PROPS = {
    "bootstrap.servers": "b:1",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
}


def config(**more: str) -> DistributedConfig:
    """Names have `_` for `.`."""
    return DistributedConfig.from_properties(
        {**PROPS, **{key.replace("_", "."): value for key, value in more.items()}}
    )
