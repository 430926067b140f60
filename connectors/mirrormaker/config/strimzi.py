"""Translates Strimzi's KafkaMirrorMaker2 resource (v1beta2 and v1) into mm2.properties.

Values of Kubernetes secrets become references to files, as pods mount them: `${dir:DIRECTORY:key}`.
Everything that has no counterpart is named. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect.errors import ConfigError

__all__ = ["SECRETS_DIRECTORY", "ImportedMirror", "translate_strimzi"]

SECRETS_DIRECTORY = "/etc/kafka-connect-mirror/secrets"
KIND = "KafkaMirrorMaker2"
VERSIONS = ("v1beta2", "v1")
_PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"

_CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_DEPLOYMENT = {
    "replicas": "the number of processes: replicas of the Deployment, or the number of hosts",
    "resources": "CPU and memory: resources of the container",
    "template": "the pod: see the manifests in deploy/kubernetes",
    "image": "the image: see deploy/container",
    "version": "the Kafka version of the workers",
    "jvmOptions": "options of a JVM, which this mirror does not use",
    "jmxOptions": "JMX: the metrics are at metrics.listener",
    "metricsConfig": "rules for metrics: the same names are served at metrics.listener (?family=A)",
    "logging": "log levels of Java classes",
    "tracing": "tracing",
    "livenessProbe": "probes: /health/live of metrics.listener",
    "readinessProbe": "probes: /health/ready of metrics.listener",
    "rack": "rack awareness: set <alias>.client.rack on each host",
    "clientRackInitImage": "rack awareness: set <alias>.client.rack on each host",
    "externalConfiguration": "mounted volumes: mount them into the pod yourself",
}
_MODULES = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}


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
    group, _, version = str(resource.get("apiVersion", "")).partition("/")
    if resource.get("kind") != KIND or group != "kafka.strimzi.io" or version not in VERSIONS:
        raise ConfigError(
            f"Not a resource that can be imported: kind {resource.get('kind')}, apiVersion "
            f"{resource.get('apiVersion')}. Use a {KIND} of kafka.strimzi.io/"
            f"{' or /'.join(VERSIONS)}"
        )
    spec = resource.get("spec")
    if not isinstance(spec, Mapping) or not spec.get("mirrors"):
        raise ConfigError(f"The {KIND} has no spec.mirrors, so there is nothing to import")
    return _Translation(spec, secrets).run()


class _Translation:
    """Collects the properties of one resource."""

    def __init__(self, spec: Mapping[str, Any], secrets: str) -> None:
        self._spec = spec
        self._secrets = secrets
        self._found = ImportedMirror()
        self._uses_secrets = False

    def run(self) -> ImportedMirror:
        clusters = self._clusters()
        flows = self._flows(clusters)
        head = {"clusters": ", ".join(clusters)}
        body = self._found.properties
        self._found.properties = head
        self._found.properties |= body
        if self._uses_secrets:
            head["config.providers"] = "dir"
            head["config.providers.dir.class"] = _PROVIDER
        self._say_rest(flows)
        return self._found

    def _clusters(self) -> list[str]:
        """Translate all clusters. Returns their aliases."""
        target = self._spec.get("target")
        described = list(self._spec.get("clusters") or ())
        if target is not None:
            sources = [mirror.get("source") or {} for mirror in self._spec["mirrors"]]
            described = [*sources, target]
        aliases: list[str] = []
        for cluster in described:
            alias = str(cluster.get("alias") or "").strip()
            if not alias or not cluster.get("bootstrapServers"):
                raise ConfigError("A cluster has no alias or no bootstrapServers; add them")
            if alias not in aliases:
                aliases.append(alias)
                self._cluster(alias, cluster)
        return aliases

    def _cluster(self, alias: str, cluster: Mapping[str, Any]) -> None:
        self._set(f"{alias}.bootstrap.servers", cluster["bootstrapServers"])
        tls, authentication = cluster.get("tls"), cluster.get("authentication") or {}
        kind = str(authentication.get("type") or "")
        sasl = bool(kind) and kind != "tls"
        if tls is not None or sasl:
            protocol = f"{'SASL_' if sasl else ''}{'PLAINTEXT' if tls is None else 'SSL'}"
            self._set(f"{alias}.security.protocol", protocol)
        if tls is not None:
            self._trust(alias, tls)
        if kind:
            self._authenticate(alias, kind, authentication)
        for key, value in (cluster.get("config") or {}).items():
            self._set(f"{alias}.{key}", value)
        known = {"alias", "bootstrapServers", "tls", "authentication", "config"}
        for key in cluster.keys() - known:
            self._leave(f"cluster {alias}: {key}: {_group_of(key)}")

    def _trust(self, alias: str, tls: Mapping[str, Any]) -> None:
        trusted = tls.get("trustedCertificates") or []
        if len(trusted) > 1:
            self._leave(
                f"cluster {alias}: {len(trusted)} trusted certificates: join them in one PEM file; "
                "the first one is used"
            )
        for each in trusted[:1]:
            name = each.get("certificate")
            if name is None:
                self._leave(f"cluster {alias}: the pattern {each.get('pattern')} of certificates")
                name = "ca.crt"
            self._set(f"{alias}.ssl.truststore.type", "PEM")
            location = f"{self._secrets}/{each.get('secretName')}/{name}"
            self._set(f"{alias}.ssl.truststore.location", location)

    def _authenticate(self, alias: str, kind: str, given: Mapping[str, Any]) -> None:
        if kind == "tls":
            pair = given.get("certificateAndKey") or {}
            secret = str(pair.get("secretName"))
            self._set(f"{alias}.ssl.keystore.type", "PEM")
            chain = self._secret(secret, pair.get("certificate"))
            self._set(f"{alias}.ssl.keystore.certificate.chain", chain)
            self._set(f"{alias}.ssl.keystore.key", self._secret(secret, pair.get("key")))
        elif kind in _MODULES:
            mechanism, module = _MODULES[kind]
            password = given.get("passwordSecret") or {}
            reference = self._secret(str(password.get("secretName")), password.get("password"))
            user = str(given.get("username", "")).replace("\\", "\\\\").replace('"', '\\"')
            self._set(f"{alias}.sasl.mechanism", mechanism)
            jaas = f'{module} required username="{user}" password="{reference}";'
            self._set(f"{alias}.sasl.jaas.config", jaas)
        else:
            self._leave(
                f"cluster {alias}: authentication of type {kind}: set {alias}.sasl.mechanism and "
                f"{alias}.sasl.jaas.config yourself"
            )

    def _flows(self, clusters: list[str]) -> list[str]:
        flows = []
        target = self._spec.get("target")
        for mirror in self._spec["mirrors"]:
            if target is None:
                source, into = mirror.get("sourceCluster"), mirror.get("targetCluster")
            else:
                source, into = (mirror.get("source") or {}).get("alias"), target.get("alias")
            if source not in clusters or into not in clusters:
                raise ConfigError(
                    f"A mirror goes from {source} to {into}, but the clusters are "
                    f"{', '.join(clusters)}"
                )
            flow = f"{source}->{into}"
            flows.append(flow)
            self._flow(flow, mirror)
        return flows

    def _flow(self, flow: str, mirror: Mapping[str, Any]) -> None:
        self._set(f"{flow}.enabled", "true")
        for key, name in _PATTERNS.items():
            if mirror.get(key) is not None:
                self._set(f"{flow}.{name}", mirror[key])
        for key in _CONNECTORS:
            connector = mirror.get(key)
            if connector is not None:
                self._connector(flow, key, connector)
        if "heartbeatConnector" not in mirror:
            # Strimzi runs no heartbeats then; without the key this mirror would.
            self._set(f"{flow}.emit.heartbeats.enabled", "false")
        if "checkpointConnector" not in mirror:
            self._set(f"{flow}.emit.checkpoints.enabled", "false")
        known = {*_PATTERNS, *_CONNECTORS, "sourceCluster", "targetCluster", "source"}
        for key in mirror.keys() - known:
            self._leave(f"{flow}: {key}: {mirror[key]}")

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
            if before is not None and before != _text(value):
                self._leave(
                    f"{flow}: {kind}.config {key}={_text(value)}: another connector of the flow "
                    f"has {before}, and all connectors of a flow share one value"
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

    def _say_rest(self, flows: list[str]) -> None:
        known = {"clusters", "mirrors", "target", "connectCluster"}
        for key in self._spec.keys() - known:
            self._leave(f"spec.{key}: {_DEPLOYMENT.get(key, 'no counterpart')}")
        self._leave(
            f"the stored offsets of {', '.join(flows)}: Strimzi keeps them under the names of its "
            "connectors, in another topic, which a dedicated mirror does not read. The mirror "
            "begins at auto.offset.reset; to go on without copying twice, run "
            "connect-distributed with the "
            "group and topics of the Strimzi cluster instead"
        )

    def _set(self, key: str, value: object) -> None:
        self._found.properties[key] = _text(value)

    def _leave(self, sentence: str) -> None:
        self._found.left_out.append(sentence)

    def _secret(self, secret: str, key: object) -> str:
        self._uses_secrets = True
        return f"${{dir:{self._secrets}/{secret}:{key}}}"


def _group_of(key: str) -> str:
    if key == "groupId" or key.endswith("StorageTopic"):
        return (
            "a dedicated mirror has a group and topics for each flow, as MirrorMaker 2 names them"
        )
    return "no counterpart"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
