"""Sends all metrics to an OpenTelemetry collector, by OTLP over HTTP.

The names and labels are those of family A of `/metrics`. The endpoint is the property
`mirror.otlp.endpoint` or OpenTelemetry's own variables, which also set the interval, headers,
certificates, timeout, compression, and what the process is called.

The package `opentelemetry-exporter-otlp-proto-http` (the extra `opentelemetry`) is imported only if
metrics are sent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from connect.config.otlp_keys import OTLP_ENDPOINT
from connect.errors import ConfigError
from connect.metrics.registry import MetricRegistry

if TYPE_CHECKING:
    from connect.metrics.otlp_sender import OtlpSender

__all__ = ["otlp_export"]

_LOG = logging.getLogger(__name__)

_PATH = "/v1/metrics"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MS = 60_000
"""OpenTelemetry's default."""
_INSTALL = "pip install 'kafka-connect-mirror[opentelemetry]'"


def otlp_export(
    metrics: MetricRegistry,
    endpoint: str | None,
    environment: Mapping[str, str] = os.environ,
) -> OtlpSender | None:
    """Return the export of these metrics, not started; None if neither the property nor the
    environment asks for one. `endpoint`: the value of `OTLP_ENDPOINT`. Raises `ConfigError` for a
    value that cannot be used."""
    if endpoint is None and not _asked_for(environment):
        return None
    interval_s = _interval_s(environment)
    try:
        from connect.metrics.otlp_sender import OtlpSender
    except ImportError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        told = f"needs a package that is not installed: {_INSTALL} ({error})"
        if endpoint is not None:
            raise ConfigError(f"{OTLP_ENDPOINT.name} {told}", key=OTLP_ENDPOINT.name) from error
        _LOG.warning("No metrics are sent, because the export %s", told)
        return None
    if endpoint is not None:
        base = endpoint.rstrip("/")
        endpoint = base if base.endswith(_PATH) else base + _PATH
    return OtlpSender(metrics, endpoint, interval_s)


def _asked_for(environment: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's variables ask for an export that this module can do."""
    if not any(environment.get(name) for name in _ENDPOINTS):
        return False
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_METRICS_EXPORTER", "otlp") != "otlp":
        return False
    protocol = next(filter(None, map(environment.get, _PROTOCOLS)), "http/protobuf")
    if protocol != "http/protobuf":
        _LOG.warning(
            "No metrics are sent to OpenTelemetry by the protocol %s: set %s=http/protobuf, and an "
            "endpoint for it",
            protocol,
            _PROTOCOLS[0],
        )
        return False
    return True


def _interval_s(environment: Mapping[str, str]) -> float:
    text = environment.get(_INTERVAL) or str(_INTERVAL_MS)
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(
            f"Invalid value {text} for {_INTERVAL}: use a whole number of at least 1, in ms",
            key=_INTERVAL,
            value=text,
        )
    return int(text) / 1000
