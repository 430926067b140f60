"""SASL mechanisms of our own in the place of kafka-python's of the same name.

Raw connections and the group member both find mechanisms in kafka-python's table. kafka-python's
own stays for clients that are not ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kafka.net.sasl import SASL_MECHANISMS, register_sasl_mechanism

__all__ = ["LOGIN_KEY", "register_mechanism"]

LOGIN_KEY = "sasl_kerberos_name"
"""The argument of kafka-python's mechanisms that holds a login of ours."""

Login = TypeVar("Login")


def register_mechanism(
    name: str, login_type: type[Login], mechanism: Callable[[Login, str], Any]
) -> None:
    """Let `mechanism` log in to a host where `LOGIN_KEY` has a login of this type. Called once for
    each name."""
    kafka_pythons = SASL_MECHANISMS[name]

    def made(**config: Any) -> Any:
        login = config.get(LOGIN_KEY)
        if isinstance(login, login_type):
            return mechanism(login, str(config["host"]))
        return kafka_pythons(**config)

    register_sasl_mechanism(name, made, overwrite=True)
