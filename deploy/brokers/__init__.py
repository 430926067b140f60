"""Real Kafka brokers for the demo, tests and benchmarks: downloaded once, pinned, run on
loopback."""

from connect.java_home import find_java
from deploy.brokers.artifacts import Progress, fetch_kafka
from deploy.brokers.cluster import KafkaCluster, kafka_runtime
from deploy.brokers.errors import DeployError, DownloadFailed, JavaNotFound, ProcessFailed
from deploy.brokers.java import find_or_install_java
from deploy.brokers.node import KafkaNode
from deploy.brokers.process import GuardedProcess
from deploy.brokers.runtime import JvmOptions, KafkaRuntime
from deploy.brokers.versions import KAFKA_VERSION, OLD_VERSIONS

__all__ = [
    "KAFKA_VERSION",
    "OLD_VERSIONS",
    "DeployError",
    "DownloadFailed",
    "GuardedProcess",
    "JavaNotFound",
    "JvmOptions",
    "KafkaCluster",
    "KafkaNode",
    "KafkaRuntime",
    "ProcessFailed",
    "Progress",
    "fetch_kafka",
    "find_java",
    "find_or_install_java",
    "kafka_runtime",
]
