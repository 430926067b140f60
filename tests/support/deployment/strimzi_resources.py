"""Strimzi's KafkaMirrorMaker2 resources, in YAML."""

from __future__ import annotations

__all__ = ["V1", "V1BETA2"]

V1BETA2 = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: my-mirror}
spec:
  version: 4.1.0
  replicas: 3
  connectCluster: dr
  clusters:
    - alias: main
      bootstrapServers: main-kafka-bootstrap:9093
      tls:
        trustedCertificates: [{secretName: main-ca, certificate: ca.crt}]
      authentication:
        type: scram-sha-512
        username: mirror
        passwordSecret: {secretName: main-user, password: password}
    - alias: dr
      bootstrapServers: dr-kafka-bootstrap:9093
      tls: {trustedCertificates: [{secretName: dr-ca, certificate: ca.crt}]}
      authentication:
        type: tls
        certificateAndKey: {secretName: dr-user, certificate: user.crt, key: user.key}
      config: {config.storage.replication.factor: -1}
  mirrors:
    - sourceCluster: main
      targetCluster: dr
      topicsPattern: "orders.*"
      groupsPattern: ".*"
      sourceConnector:
        tasksMax: 4
        autoRestart: {enabled: true}
        config: {replication.factor: 3, sync.topic.acls.enabled: false}
      checkpointConnector:
        config: {sync.group.offsets.enabled: true}
  resources: {limits: {cpu: 1}}
"""

V1 = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: my-mirror}
spec:
  target:
    alias: dr
    bootstrapServers: dr:9092
    groupId: my-group
    configStorageTopic: my-configs
  mirrors:
    - source: {alias: main, bootstrapServers: "main:9092"}
      topicsPattern: ".*"
      sourceConnector: {config: {refresh.topics.interval.seconds: 60}}
"""
