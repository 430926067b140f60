"""SASL on a raw connection: SaslHandshake and SaslAuthenticate with kafka-python's mechanisms.

Errors and log lines contain no credentials and no tokens. An exception of a mechanism or a token
provider may quote them, so only its type is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from kafka.net.sasl import SASL_MECHANISMS
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from connect.clients.errors import error_from_code
from connect.clients.security.scram import install, remedy
from connect.config.types import invalid_value
from connect.errors import AuthenticationFailed, ConfigError, ConnectError
from connect.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from connect.clients.config.settings import WireSettings
    from connect.clients.wire.connection import WireConnection
    from connect.clock import Deadline

__all__ = ["authenticate", "check_handshake", "exchange"]

install()

HIDDEN = "[hidden]"


def authenticate(connection: WireConnection, settings: WireSettings, deadline: Deadline) -> int:
    """Authenticate a new connection. Return the session's lifetime in ms, 0 for no limit.

    Raises `AuthenticationFailed` if the broker refuses, `ConfigError` if the mechanism cannot be
    used with these settings, and the errors of `WireConnection.call`.
    """
    name = settings.sasl_mechanism or ""
    response = connection.call(SaslHandshakeRequest(mechanism=name, version=1), deadline)
    check_handshake(response, connection, name)
    return exchange(connection, settings, deadline)


def exchange(connection: WireConnection, settings: WireSettings, deadline: Deadline) -> int:
    """Exchange the mechanism's messages after a SaslHandshake. Returns and raises as `authenticate`
    does.
    """
    name = settings.sasl_mechanism or ""
    mechanism = _mechanism(connection, name, settings)
    lifetime_ms = 0
    while not mechanism.is_done():
        token = _step(connection, name, mechanism.auth_bytes)
        response = connection.call(SaslAuthenticateRequest(auth_bytes=token), deadline)
        if response.error_code:
            said = _without_secrets(response.error_message or "", settings)
            error = error_from_code(response.error_code, f"SASL {name} at {connection}")
            if error.retriable:
                raise error
            more = remedy(settings.sasl.get("sasl_plain_username"))
            raise AuthenticationFailed(f"SASL {name} at {connection} was refused: {said}{more}")
        _step(connection, name, mechanism.receive, response.auth_bytes)
        lifetime_ms = max(0, response.session_lifetime_ms or 0)
    if not mechanism.is_authenticated():
        raise AuthenticationFailed(f"SASL {name} at {connection} ended without a result")
    return lifetime_ms


def check_handshake(response: Any, connection: WireConnection, name: str) -> None:
    """Raise `AuthenticationFailed` if the broker refused the mechanism `name`."""
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationFailed(
            f"{connection} does not offer sasl.mechanism {name}; "
            f"it offers {', '.join(response.mechanisms)}"
        )
    if response.error_code:
        error = error_from_code(response.error_code, f"SaslHandshake with {connection}")
        if error.retriable:
            raise error
        raise AuthenticationFailed(
            f"{error}; check that security.protocol matches the listener"
        ) from error


def _mechanism(connection: WireConnection, name: str, settings: WireSettings) -> Any:
    mechanism_class = SASL_MECHANISMS.get(name)
    if mechanism_class is None:
        raise invalid_value(
            "sasl.mechanism", name, f"must be one of {', '.join(sorted(SASL_MECHANISMS))}"
        )
    options = dict(settings.sasl)
    options["sasl_mechanism"] = name
    options["host"] = connection.host
    try:
        return mechanism_class(**options)
    except (KafkaError, RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, KafkaError | RuntimeError) else "incomplete"
        raise ConfigError(
            f"sasl.mechanism {name} cannot be used: {_without_secrets(reason, settings)}; "
            f"check sasl.jaas.config",
            key="sasl.jaas.config",
        ) from None


def _step(connection: WireConnection, name: str, action: Any, *arguments: bytes) -> Any:
    """Run one step of a mechanism. Any exception ends the exchange.

    Its text may quote a token, so only its type is reported and its traceback is dropped.
    """
    try:
        return action(*arguments)
    except ConnectError:
        raise
    except Exception as error:  # noqa: BLE001 - mechanisms and token providers are plugins
        raise AuthenticationFailed(
            f"SASL {name} at {connection} failed in the client: {type(error).__name__}"
        ) from None


def _without_secrets(text: str, settings: WireSettings) -> str:
    for key, value in settings.sasl.items():
        if isinstance(value, str) and value and "password" in key:
            text = text.replace(value, HIDDEN)
    return text
