"""The address of a Spark Connect server, as `spark.remote` names it.

`sc://host:port/;name=value;...`, where the parameters may contain a token. Pure. Does not import
PySpark.
"""

from __future__ import annotations

import re

from connect.config.secrets import is_secret_name, remember

__all__ = ["REMOTE_SCHEME", "remote_problem", "shown_remote"]

REMOTE_SCHEME = "sc://"

_ADDRESS = re.compile(r"sc://[^/:@][^/@]*")


def shown_remote(url: str) -> str:
    """Return the address without its parameters, for logs and metrics. Its token is remembered as
    a secret from now on."""
    place, _, parameters = url.partition(";")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if is_secret_name(name):
            remember([value])
    return place.rstrip("/")


def remote_problem(url: str) -> str | None:
    """Return why this is no address of a Spark Connect server; None if it is one."""
    if _ADDRESS.fullmatch(shown_remote(url)):
        return None
    return "must be the address of a Spark Connect server, such as sc://host:15002"
