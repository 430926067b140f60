"""Config provider for HashiCorp Vault: key/value secrets by Vault's HTTP API.

`${vault:PATH:KEY}` is the value KEY of the secret at PATH. The parameters, with the prefix
`config.providers.<alias>.param.`:

    url            address of Vault, with https; http only on this machine (Vault Agent)
    namespace      Vault Enterprise's
    kv.version     2 (default) or 1
    mount          where the secrets engine is; default: the first part of PATH
    auth           token (default), approle or kubernetes
    auth.mount     where the auth method is; default: its name
    token, token.file              for token; without both, the environment's VAULT_TOKEN
    role.id, secret.id, secret.id.file     for approle
    role, jwt.file                 for kubernetes; the file is by default the pod's
    ca.file        PEM file with the certificates that signed Vault's; default: the system's
    timeout.ms     of one request; default 5000
    ttl.ms         after which connectors that use a value are restarted, if Vault names no lease
    allowed.paths  beginnings of paths, outside of which nothing is read; default: no limit

Only an operator's file can name a host: providers are those of the worker. Files are read at each
login, so that they can be rotated. A login's token is used until most of its lease is over.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from connect.clock import SYSTEM_CLOCK, Clock, seconds_of
from connect.config.bounded_http import fetch
from connect.config.secrets import remember
from connect.config.types import invalid_value
from connect.errors import ConfigError, RetriableError

__all__ = ["VaultClient", "VaultSettings"]

_POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
_METHODS = ("token", "approle", "kubernetes")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PATH = re.compile(r"[\w ./=@:+-]+")
_USE_OF_LEASE = 0.8
_DEFAULT_TIMEOUT_MS = 5000
_BUSY = (408, 429)


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultSettings:
    """The parameters of a provider. `prefix`: of their keys, for errors."""

    prefix: str
    url: str
    parameters: Mapping[str, str] = field(repr=False)
    method: str
    kv_version: int
    timeout_s: float
    ttl_s: float | None
    allowed: tuple[str, ...]
    tls: ssl.SSLContext | None = field(repr=False)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str], prefix: str) -> VaultSettings:
        """Parse the parameters. Raises `ConfigError` for an invalid one."""
        url = parameters.get("url", "").strip().rstrip("/")
        parts = urlsplit(url)
        local = parts.scheme == "http" and parts.hostname in _LOOPBACK
        if not parts.hostname or not (parts.scheme == "https" or local):
            raise invalid_value(f"{prefix}url", url, "use https://host:port")
        method = parameters.get("auth", "token").strip()
        if method not in _METHODS:
            raise invalid_value(f"{prefix}auth", method, f"use one of {', '.join(_METHODS)}")
        version = parameters.get("kv.version", "2").strip()
        if version not in ("1", "2"):
            raise invalid_value(f"{prefix}kv.version", version, "use 1 or 2")
        ttl_ms = _number(parameters, prefix, "ttl.ms")
        timeout_ms = _number(parameters, prefix, "timeout.ms") or _DEFAULT_TIMEOUT_MS
        allowed = (
            path.strip().strip("/") for path in parameters.get("allowed.paths", "").split(",")
        )
        return cls(
            prefix=prefix,
            url=url,
            parameters=dict(parameters),
            method=method,
            kv_version=int(version),
            timeout_s=timeout_ms / 1000,
            ttl_s=seconds_of(ttl_ms),
            allowed=tuple(path for path in allowed if path),
            tls=_tls(parameters.get("ca.file"), prefix) if parts.scheme == "https" else None,
        )


def _number(parameters: Mapping[str, str], prefix: str, name: str) -> int | None:
    text = parameters.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,11}", text):
        raise invalid_value(f"{prefix}{name}", text, "use a number of milliseconds, at least 1")
    return int(text)


def _tls(file: str | None, prefix: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file or None)
    except OSError as error:
        raise invalid_value(f"{prefix}ca.file", file, f"cannot be read: {error}") from error


class VaultClient:
    """Reads secrets, and logs in as needed. Safe to call from any thread."""

    def __init__(
        self,
        settings: VaultSettings,
        environment: Mapping[str, str] = os.environ,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._login_ends_s: float | None = None
        self._ttls: dict[str, float | None] = {}

    def read(self, path: str) -> dict[str, str]:
        """Return the values of a secret; empty if it does not exist or may not be read by
        `allowed.paths`. Raises `ConfigError`, and `RetriableError` if Vault does not answer."""
        path = path.strip("/")
        self._check(path)
        allowed = self._settings.allowed
        if allowed and not any(path == root or path.startswith(f"{root}/") for root in allowed):
            return {}
        with self._lock:
            answer = self._read_now(path)
        if answer is None:
            return {}
        data = answer.get("data")
        if self._settings.kv_version == 2 and isinstance(data, dict):
            data = data.get("data")
        if not isinstance(data, dict):
            # Version 2 answers so for a secret that was deleted.
            return {}
        lease_s = answer.get("lease_duration")
        leased = isinstance(lease_s, int | float) and lease_s > 0
        self._ttls[path] = float(lease_s or 0) if leased else self._settings.ttl_s
        return {
            str(key): value if isinstance(value, str) else json.dumps(value)
            for key, value in data.items()
        }

    def ttl_s(self, path: str) -> float | None:
        """Return for how long the last answer for a path is valid, in seconds; None: no limit."""
        return self._ttls.get(path.strip("/"))

    def _check(self, path: str) -> None:
        parts = path.split("/")
        if not _PATH.fullmatch(path) or any(part in ("", ".", "..") for part in parts):
            raise ConfigError(
                f"Invalid path {path!r} of a secret in Vault: write it as mount/name, without "
                "empty parts and dots",
                value=path,
            )

    def _read_now(self, path: str) -> dict[str, Any] | None:
        mount = self._settings.parameters.get("mount", "").strip().strip("/")
        if not mount:
            mount, _, path = path.partition("/")
        kind = "data/" if self._settings.kv_version == 2 else ""
        where = f"{quote(mount)}/{kind}{quote(path)}"
        for again in (True, False):
            try:
                return self._ask("GET", where, self._valid_token())
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return None
                # A token may have been revoked before its lease was over.
                self._login_ends_s = None
                if error.code != 403 or not again or self._settings.method == "token":
                    raise self._failure(f"reading {mount}/{path}", error.code) from None
        raise AssertionError("unreachable")

    def _valid_token(self) -> str:
        method = self._settings.method
        if method == "token":
            token = self._secret("token") or self._environment.get("VAULT_TOKEN", "")
            if not token:
                key = f"{self._settings.prefix}token.file"
                raise ConfigError(f"There is no token for Vault; set {key}", key=key)
            remember([token])
            return token
        now = self._clock.monotonic()
        if self._login_ends_s is None or now >= self._login_ends_s:
            self._token, lease_s = self._login(method)
            remember([self._token])
            self._login_ends_s = now + lease_s * _USE_OF_LEASE
        return self._token

    def _login(self, method: str) -> tuple[str, float]:
        parameters = self._settings.parameters
        if method == "approle":
            body = {"role_id": self._needed("role.id"), "secret_id": self._secret("secret.id")}
        else:
            file = parameters.get("jwt.file", _POD_TOKEN)
            body = {"role": self._needed("role"), "jwt": self._file("jwt.file", file)}
        mount = parameters.get("auth.mount", method).strip().strip("/")
        try:
            answer = self._ask("POST", f"auth/{quote(mount)}/login", None, body)
        except urllib.error.HTTPError as error:
            error.close()
            raise self._failure(f"the login by {method}", error.code) from None
        auth = (answer or {}).get("auth")
        token = auth.get("client_token") if isinstance(auth, dict) else None
        if not isinstance(auth, dict) or not isinstance(token, str):
            raise ConfigError(f"Vault at {self._settings.url} answered a login without a token")
        lease_s = auth.get("lease_duration")
        # 0: the token does not expire.
        return token, float(lease_s) if isinstance(lease_s, int | float) and lease_s else 3600.0

    def _needed(self, name: str) -> str:
        value = self._settings.parameters.get(name, "").strip()
        if not value:
            key = f"{self._settings.prefix}{name}"
            raise ConfigError(f"{key} is needed for auth={self._settings.method}", key=key)
        return value

    def _secret(self, name: str) -> str:
        """Return a parameter, or the content of the file that `<name>.file` names."""
        file = self._settings.parameters.get(f"{name}.file", "").strip()
        if file:
            return self._file(f"{name}.file", file)
        return self._settings.parameters.get(name, "").strip()

    def _file(self, name: str, file: str) -> str:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            key = f"{self._settings.prefix}{name}"
            raise ConfigError(
                f"The file {file} of {key} cannot be read: {type(error).__name__}", key=key
            ) from error

    def _ask(
        self, method: str, path: str, token: str | None, body: Mapping[str, str] | None = None
    ) -> dict[str, Any] | None:
        settings = self._settings
        headers = {"Accept": "application/json", "X-Vault-Request": "true"}
        if token is not None:
            headers["X-Vault-Token"] = token
        namespace = settings.parameters.get("namespace", "").strip()
        if namespace:
            headers["X-Vault-Namespace"] = namespace
        data = None if body is None else json.dumps(body).encode()
        url = f"{settings.url}/v1/{path}"
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        try:
            answer = json.loads(fetch(request, settings.timeout_s, settings.tls))
        except urllib.error.HTTPError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise RetriableError(
                f"Vault at {settings.url} gave no valid answer: {type(reason).__name__}"
            ) from error
        return answer if isinstance(answer, dict) else None

    def _failure(self, what: str, status: int) -> ConfigError | RetriableError:
        """Return the error for an HTTP status. Vault's own text is left out: it may name values."""
        text = f"Vault at {self._settings.url} answered {what} with HTTP {status}"
        if status >= 500 or status in _BUSY:
            return RetriableError(f"{text}; it is sealed, starting or overloaded")
        if 300 <= status < 400:
            return ConfigError(
                f"{text}, a redirect, which is not followed; name that address in url"
            )
        if status in (400, 401, 403):
            return ConfigError(f"{text}; check the credentials and the policies of their role")
        return ConfigError(text)
