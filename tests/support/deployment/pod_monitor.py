"""The fields of the Prometheus operator's resource PodMonitor (monitoring.coreos.com/v1) as a JSON
schema, so that manifests can be checked offline: a misspelt field is refused, as the API server
would drop it. Fields that no manifest of ours has are known by name only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["POD_MONITOR"]

Schema = Mapping[str, Any]

_TEXT: Schema = {"type": "string"}
_DURATION: Schema = {
    "type": "string",
    "pattern": r"^(0|(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?)$",
}
_ACTIONS = (
    "replace keep drop hashmod labelmap labeldrop labelkeep lowercase uppercase keepequal dropequal"
)
_UNCHECKED_OF_SPEC = (
    "attachMetadata bodySizeLimit convertClassicHistogramsToNHCB fallbackScrapeProtocol jobLabel "
    "keepDroppedTargets labelLimit labelNameLengthLimit labelValueLengthLimit namespaceSelector "
    "nativeHistogramBucketLimit nativeHistogramMinBucketFactor podTargetLabels sampleLimit "
    "scrapeClass scrapeClassicHistograms scrapeNativeHistograms scrapeProtocols selectorMechanism "
    "targetLimit"
)
_UNCHECKED_OF_ENDPOINTS = (
    "authorization basicAuth bearerTokenSecret enableHttp2 filterRunning followRedirects "
    "honorLabels honorTimestamps metricRelabelings noProxy oauth2 portNumber proxyConnectHeader "
    "proxyFromEnvironment proxyUrl targetPort tlsConfig trackTimestampsStaleness"
)


def _known(unchecked: str, **checked: Schema) -> Schema:
    """An object that has only these fields."""
    names: dict[str, Schema] = {name: {} for name in unchecked.split()}
    return {"type": "object", "properties": names | checked, "additionalProperties": False}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _texts() -> Schema:
    return {"type": "object", "additionalProperties": _TEXT}


_RELABELING = _known(
    "",
    action={"enum": _ACTIONS.split()},
    modulus={"type": "integer", "minimum": 0},
    regex=_TEXT,
    replacement=_TEXT,
    separator=_TEXT,
    sourceLabels=_list(_TEXT),
    targetLabel=_TEXT,
)
_ENDPOINT = _known(
    _UNCHECKED_OF_ENDPOINTS,
    interval=_DURATION,
    params={"type": "object", "additionalProperties": _list(_TEXT)},
    path=_TEXT,
    port=_TEXT,
    relabelings=_list(_RELABELING),
    scheme={"enum": ["http", "https"]},
    scrapeTimeout=_DURATION,
)
_SPEC: Schema = {
    **_known(
        _UNCHECKED_OF_SPEC,
        podMetricsEndpoints={**_list(_ENDPOINT), "minItems": 1},
        selector=_known("matchExpressions", matchLabels=_texts()),
    ),
    "required": ["podMetricsEndpoints", "selector"],
}

POD_MONITOR: Schema = {
    **_known(
        "",
        apiVersion={"const": "monitoring.coreos.com/v1"},
        kind={"const": "PodMonitor"},
        metadata={
            **_known("", name=_TEXT, namespace=_TEXT, labels=_texts(), annotations=_texts()),
            "required": ["name"],
        },
        spec=_SPEC,
    ),
    "required": ["apiVersion", "kind", "metadata", "spec"],
}
