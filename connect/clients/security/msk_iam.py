"""AWS_MSK_IAM: SASL of Amazon MSK with AWS credentials, which botocore finds.

They come from the environment, a profile, a container or an instance, as for any AWS client. The
message is kafka-python's: a request to connect, signed with Signature Version 4.
"""

from __future__ import annotations

import functools
import os
import re
import socket
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl.msk import AwsMskIamClient

from connect.clients.security.own_mechanisms import register_mechanism
from connect.errors import AuthenticationFailed, ConfigError, RetriableError

__all__ = ["MskIamLogin", "MskIamMechanism"]

_MECHANISM = "AWS_MSK_IAM"
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?\Z")


@dataclass(frozen=True, slots=True)
class MskIamLogin:
    """The credentials to use: those of a profile in the AWS configuration, or the default ones."""

    profile: str | None = None

    def __str__(self) -> str:
        return f"the AWS profile {self.profile}" if self.profile else "the default AWS credentials"


class MskIamMechanism:
    """One authentication to one broker, with the methods of kafka-python's mechanisms."""

    def __init__(self, login: MskIamLogin, host: str) -> None:
        """Raises `ConfigError` if botocore, the profile or the region is missing."""
        self._login = login
        self._host = host
        self._done = self._accepted = False
        self._session = _session(login.profile)
        self._region = _region(host, self._session)

    def auth_bytes(self) -> bytes:
        """Return the signed request. Raises `AuthenticationFailed` if there are no credentials and
        `RetriableError` if their source does not answer."""
        from botocore.exceptions import BotoCoreError

        try:
            found = self._session.get_credentials()
            keys = None if found is None else found.get_frozen_credentials()
        except BotoCoreError as error:
            raise RetriableError(f"{self._login} cannot be read: {error}") from None
        if keys is None:
            raise AuthenticationFailed(
                f"{self._login} cannot be found on {socket.gethostname()}: set"
                " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the host or container a role"
            )
        client = AwsMskIamClient(
            self._host, keys.access_key, keys.secret_key, self._region, keys.token
        )
        message: bytes = client.first_message()
        return message

    def receive(self, data: bytes) -> None:
        """Handle the broker's answer, which is empty if it refuses."""
        self._done = True
        self._accepted = bool(data)

    def is_done(self) -> bool:
        return self._done

    def is_authenticated(self) -> bool:
        return self._accepted

    def auth_details(self) -> str:
        return f"Authenticated with {self._login} via SASL / {_MECHANISM}"


@functools.cache
def _session(profile: str | None) -> Any:
    """Return botocore's session, which renews temporary credentials. Thread-safe as it is used."""
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError as error:
        raise ConfigError(
            f"sasl.mechanism {_MECHANISM} needs the Python package botocore, which cannot be loaded"
            f" on {socket.gethostname()} ({error}): pip install 'kafka-connect-mirror[msk]'",
            key="sasl.mechanism",
            value=_MECHANISM,
        ) from None
    session = Session(profile=profile)
    try:
        session.get_scoped_config()
    except BotoCoreError as error:
        raise ConfigError(f"sasl.jaas.config: {error}", key="sasl.jaas.config") from None
    return session


def _region(host: str, session: Any) -> str:
    """Return the region in a broker's name, or the one that is configured, as for own DNS names."""
    named = _HOST.search(host)
    region = (
        named[1] if named else os.environ.get("AWS_REGION") or session.get_config_variable("region")
    )
    if not region:
        raise ConfigError(
            f"The AWS region of {host} is not in its name: set AWS_REGION",
            key="sasl.mechanism",
            value=_MECHANISM,
        )
    return str(region)


register_mechanism(_MECHANISM, MskIamLogin, MskIamMechanism)
