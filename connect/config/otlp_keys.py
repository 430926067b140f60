"""The config key of the export to OpenTelemetry, of all long-running programs. Kafka has none."""

from __future__ import annotations

from urllib.parse import urlsplit

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigScalar, ConfigType, invalid_value
from connect.errors import ConfigError

__all__ = ["OTLP_ENDPOINT"]


class _CollectorUrl:
    """Validates the URL of a collector: no credentials, which would be shown."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if not value:
            return None
        parts = urlsplit(str(value))
        if "@" in parts.netloc:
            # Without the value, which may hold a password.
            raise ConfigError(
                f"Invalid value for configuration {key}: it must hold no user and password; give "
                "them in the variable OTEL_EXPORTER_OTLP_HEADERS",
                key=key,
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise invalid_value(key, value, "must be a URL such as http://collector:4318")
        return value

    def describe(self) -> str:
        return "a URL (http or https)"


OTLP_ENDPOINT = ConfigKey(
    "mirror.otlp.endpoint",
    ConfigType.STRING,
    None,
    _CollectorUrl(),
    Importance.LOW,
    "URL of an OpenTelemetry collector that gets all metrics by OTLP over HTTP, such as "
    "http://collector:4318; /v1/metrics is added. Without it the variables OTEL_EXPORTER_OTLP_* "
    "count. Not a key of Kafka Connect or MirrorMaker 2.",
)
