"""Translates the clusters of Strimzi's KafkaMirrorMaker2 resource (v1beta2 and v1) into properties,
and reads its mirrors.

Values of Kubernetes secrets become references to files, as pods mount them: `${dir:DIRECTORY:key}`.
Everything that has no counterpart is named. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect.errors import ConfigError

__all__ = [
    "CONNECTORS",
    "KIND",
    "PATTERNS",
    "SECRETS_DIRECTORY",
    "WORKER_NAMES",
    "ClusterTranslation",
    "Mirror",
    "property_text",
    "resource_spec",
]

SECRETS_DIRECTORY = "/etc/kafka-connect-mirror/secrets"
KIND = "KafkaMirrorMaker2"
VERSIONS = ("v1beta2", "v1")
_PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"

CONNECTORS = {
    "sourceConnector": "MirrorSourceConnector",
    "checkpointConnector": "MirrorCheckpointConnector",
    "heartbeatConnector": "MirrorHeartbeatConnector",
}
"""The simple classes of a mirror's connectors, by field."""
PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
"""The properties of a mirror's connectors, by field of the mirror."""
WORKER_NAMES = {
    "groupId": "group.id",
    "configStorageTopic": "config.storage.topic",
    "offsetStorageTopic": "offset.storage.topic",
    "statusStorageTopic": "status.storage.topic",
}
"""The properties of the workers, by field of `target`."""
_WORKER_DEFAULTS = {
    "group.id": "mirrormaker2-cluster",
    "config.storage.topic": "mirrormaker2-cluster-configs",
    "offset.storage.topic": "mirrormaker2-cluster-offsets",
    "status.storage.topic": "mirrormaker2-cluster-status",
}
"""The group and topics of Strimzi's workers, if the resource names no others."""
_MODULES = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}


def resource_spec(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the resource's spec. Raises `ConfigError` if it is no such resource, or has no
    mirrors."""
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
    return spec


@dataclass(frozen=True, slots=True)
class Mirror:
    """One mirror of the resource, and the aliases of its clusters."""

    source: str
    target: str
    fields: Mapping[str, Any]

    @property
    def flow(self) -> str:
        return f"{self.source}->{self.target}"

    def patterns(self) -> dict[str, str]:
        """Return the properties that its patterns stand for."""
        return {
            name: property_text(self.fields[key])
            for key, name in PATTERNS.items()
            if self.fields.get(key) is not None
        }


@dataclass(slots=True)
class ClusterTranslation:
    """Collects `<alias>.<key>` of all clusters, and one sentence for each setting that was left
    out."""

    spec: Mapping[str, Any]
    secrets: str
    """The directory that has one directory for each secret."""
    properties: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    uses_secrets: bool = False

    def providers(self) -> dict[str, str]:
        """Return the properties that resolve references to secrets, if there are some."""
        if not self.uses_secrets:
            return {}
        return {"config.providers": "dir", "config.providers.dir.class": _PROVIDER}

    def worker_names(self, target: str) -> dict[str, str]:
        """Return the group and topics of the workers that write to this cluster."""
        given = self.spec.get("target") or {}
        return {
            **{
                name: self.properties.get(f"{target}.{name}", default)
                for name, default in _WORKER_DEFAULTS.items()
            },
            **{name: str(given[key]) for key, name in WORKER_NAMES.items() if key in given},
        }

    def mirrors(self, clusters: list[str]) -> Iterator[Mirror]:
        """Yield the mirrors between these aliases."""
        target = self.spec.get("target")
        for mirror in self.spec["mirrors"]:
            if target is None:
                source, into = mirror.get("sourceCluster"), mirror.get("targetCluster")
            else:
                source, into = (mirror.get("source") or {}).get("alias"), target.get("alias")
            if source not in clusters or into not in clusters:
                raise ConfigError(
                    f"A mirror goes from {source} to {into}, but the clusters are "
                    f"{', '.join(clusters)}"
                )
            yield Mirror(source, into, mirror)

    def clusters(self) -> list[str]:
        """Translate all clusters. Returns their aliases."""
        target = self.spec.get("target")
        described = list(self.spec.get("clusters") or ())
        if target is not None:
            sources = [mirror.get("source") or {} for mirror in self.spec["mirrors"]]
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
        known = {"alias", "bootstrapServers", "tls", "authentication", "config", *WORKER_NAMES}
        for key in sorted(cluster.keys() - known):
            self.left_out.append(f"cluster {alias}: {key}: no counterpart")

    def _trust(self, alias: str, tls: Mapping[str, Any]) -> None:
        trusted = tls.get("trustedCertificates") or []
        if len(trusted) > 1:
            self.left_out.append(
                f"cluster {alias}: {len(trusted)} trusted certificates: join them in one PEM file; "
                "the first one is used"
            )
        for each in trusted[:1]:
            name = each.get("certificate")
            if name is None:
                self.left_out.append(
                    f"cluster {alias}: the pattern {each.get('pattern')} of certificates"
                )
                name = "ca.crt"
            self._set(f"{alias}.ssl.truststore.type", "PEM")
            location = f"{self.secrets}/{each.get('secretName')}/{name}"
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
            self.left_out.append(
                f"cluster {alias}: authentication of type {kind}: set {alias}.sasl.mechanism and "
                f"{alias}.sasl.jaas.config yourself"
            )

    def _set(self, key: str, value: object) -> None:
        self.properties[key] = property_text(value)

    def _secret(self, secret: str, key: object) -> str:
        self.uses_secrets = True
        return f"${{dir:{self.secrets}/{secret}:{key}}}"


def property_text(value: object) -> str:
    """Return a YAML value as properties have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
