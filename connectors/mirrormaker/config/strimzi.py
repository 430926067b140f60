"""Translates Strimzi's KafkaMirrorMaker2 resource into mm2.properties, for dedicated mode.

Pure. `strimzi_workers` translates it for Connect workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.mirrormaker.config.strimzi_clusters import (
    CONNECTORS,
    PATTERNS,
    SECRETS_DIRECTORY,
    WORKER_NAMES,
    ClusterTranslation,
    Mirror,
    property_text,
    resource_spec,
)

__all__ = ["DEPLOYMENT", "ImportedMirror", "translate_strimzi"]

DEPLOYMENT = {
    "replicas": "the number of processes: replicas of the Deployment, or the number of hosts",
    "resources": "CPU and memory: resources of the container",
    "template": "the pod: see the manifests in deploy/kubernetes",
    "image": "the image: see deploy/container",
    "version": "the Kafka version of the workers",
    "jvmOptions": "options of a JVM, which this mirror does not use",
    "jmxOptions": "JMX: the metrics are at /metrics",
    "metricsConfig": "rules for metrics: the same names are at /metrics (?family=A)",
    "logging": "log levels of Java classes",
    "tracing": "tracing",
    "livenessProbe": "probes: /health/live",
    "readinessProbe": "probes: /health/ready",
    "rack": "rack awareness: set <alias>.client.rack on each host",
    "clientRackInitImage": "rack awareness: set <alias>.client.rack on each host",
    "externalConfiguration": "mounted volumes: mount them into the pod yourself",
}
"""What takes the place of the fields of `spec` that describe the operator's pods."""


@dataclass(slots=True)
class ImportedMirror:
    """The properties, in the order of the file to write, and one sentence for each setting that was
    left out."""

    properties: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def translate_strimzi(
    resource: Mapping[str, Any], secrets: str = SECRETS_DIRECTORY
) -> ImportedMirror:
    """Translate a resource. `secrets`: the directory that has one directory for each secret. Raises
    `ConfigError` if it is no such resource, or lacks clusters or mirrors."""
    return _Translation(ClusterTranslation(resource_spec(resource), secrets)).run()


class _Translation:
    """Collects the properties of one resource."""

    def __init__(self, clusters: ClusterTranslation) -> None:
        self._clusters = clusters
        self._spec = clusters.spec
        self._found = ImportedMirror(clusters.properties, clusters.left_out)

    def run(self) -> ImportedMirror:
        aliases = self._clusters.clusters()
        mirrors = list(self._clusters.mirrors(aliases))
        for mirror in mirrors:
            self._flow(mirror)
        self._say_rest(mirrors)
        head = {"clusters": ", ".join(aliases)}
        body = self._found.properties
        return ImportedMirror({**head, **self._clusters.providers(), **body}, self._found.left_out)

    def _flow(self, mirror: Mirror) -> None:
        flow, fields = mirror.flow, mirror.fields
        self._set(f"{flow}.enabled", "true")
        for name, value in mirror.patterns().items():
            self._set(f"{flow}.{name}", value)
        for key in CONNECTORS:
            connector = fields.get(key)
            if connector is not None:
                self._connector(flow, key, connector)
        if "heartbeatConnector" not in fields:
            # Strimzi runs no heartbeats then; without the key this mirror would.
            self._set(f"{flow}.emit.heartbeats.enabled", "false")
        if "checkpointConnector" not in fields:
            self._set(f"{flow}.emit.checkpoints.enabled", "false")
        known = {*PATTERNS, *CONNECTORS, "sourceCluster", "targetCluster", "source"}
        for key in sorted(fields.keys() - known):
            self._leave(f"{flow}: {key}: {fields[key]}")

    def _connector(self, flow: str, kind: str, connector: Mapping[str, Any]) -> None:
        if connector.get("tasksMax") is not None and kind == "sourceConnector":
            self._set(f"{flow}.tasks.max", connector["tasksMax"])
        elif connector.get("tasksMax") is not None:
            self._leave(
                f"{flow}: {kind}.tasksMax: tasks.max of the source connector applies "
                "to all connectors"
            )
        for key, value in (connector.get("config") or {}).items():
            name = f"{flow}.{key}"
            before = self._found.properties.get(name)
            if before is not None and before != property_text(value):
                self._leave(
                    f"{flow}: {kind}.config {key}={property_text(value)}: another connector of the "
                    f"flow has {before}, and all connectors of a flow share one value"
                )
                continue
            self._set(name, value)
        for key in connector.keys() - {"tasksMax", "config"}:
            if key == "autoRestart":
                reason = "failed tasks are restarted by connect-mirror itself or by REST"
            elif key in ("pause", "state"):
                reason = f"{connector[key]}: use connect-mirror pause after the first start"
            else:
                reason = str(connector[key])
            self._leave(f"{flow}: {kind}.{key}: {reason}")

    def _say_rest(self, mirrors: list[Mirror]) -> None:
        known = {"clusters", "mirrors", "target", "connectCluster"}
        for key in sorted(self._spec.keys() - known):
            self._leave(f"spec.{key}: {DEPLOYMENT.get(key, 'no counterpart')}")
        for key in sorted(WORKER_NAMES.keys() & (self._spec.get("target") or {}).keys()):
            self._leave(
                f"spec.target.{key}: a dedicated mirror has a group and topics for each flow, as "
                "MirrorMaker 2 names them"
            )
        topic = self._clusters.worker_names(mirrors[0].target)["offset.storage.topic"]
        connectors = ", ".join(f"'{mirror.flow}.MirrorSourceConnector'" for mirror in mirrors)
        self._leave(
            f"the stored offsets of {connectors}, which Strimzi keeps in another topic. Before the "
            "first start, and after Strimzi's workers have stopped, run for each connector "
            "connect-mirror-client start --config FILE --flow 'A->B' --connector NAME "
            f"--offsets-topic {topic} --commit; otherwise everything is copied again"
        )

    def _set(self, key: str, value: object) -> None:
        self._found.properties[key] = property_text(value)

    def _leave(self, sentence: str) -> None:
        self._found.left_out.append(sentence)
