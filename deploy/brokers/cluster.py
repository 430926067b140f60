"""Real Apache Kafka clusters on loopback, for the demo, tests and benchmarks: in KRaft mode, or
with a ZooKeeper server if the Kafka version needs one.

    with KafkaCluster() as cluster:
        connect_to(cluster.bootstrap_servers)

The nodes never outlive their owner. Leaving the block stops them and deletes their data, and so
does the death of the Python process, even by SIGKILL.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self

from connect.clock import Deadline
from deploy.brokers.artifacts import Progress, fetch_kafka
from deploy.brokers.cache import cache_directory
from deploy.brokers.errors import ProcessFailed
from deploy.brokers.java import find_or_install_java
from deploy.brokers.node import DATA, KafkaNode
from deploy.brokers.places import Place
from deploy.brokers.ports import PortLease
from deploy.brokers.properties import (
    CONTROLLER,
    INTERNAL,
    server_properties,
    zookeeper_broker_properties,
)
from deploy.brokers.runtime import QUICK, JvmOptions, KafkaRuntime
from deploy.brokers.storage import random_id
from deploy.brokers.versions import KAFKA_VERSION, has_kraft
from deploy.brokers.zookeeper import ZooKeeper

__all__ = ["KafkaCluster", "kafka_runtime"]

_START_TIMEOUT_S = 120.0
# A port can only be lost to a program that bound it within the last second. This has never happened
# twice in a row.
_START_ATTEMPTS = 4
_PORT_TAKEN = ("Address already in use", "java.net.BindException")


def kafka_runtime(
    progress: Callable[[Progress], None] | None = None, version: str = KAFKA_VERSION
) -> KafkaRuntime:
    """Return Java and the jars of one Kafka version, downloading them if they are missing. Raises
    `DeployError`."""
    jars = fetch_kafka(version=version) if progress is None else fetch_kafka(progress, version)
    return KafkaRuntime(find_or_install_java(), jars, version)


class KafkaCluster:
    """A Kafka cluster of `nodes` brokers with IDs from 1. One owner starts and closes it. Different
    nodes may be used by different threads."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        controllers: int = 0,
        name: str = "kafka",
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        advertise: Callable[[str, int], int] | None = None,
        format_arguments: Sequence[str] = (),
        jvm: JvmOptions = QUICK,
        kafka: KafkaRuntime | None = None,
        directory: Path | None = None,
        logs: Path | None = None,
        places: Mapping[int, Place] | None = None,
    ) -> None:
        """Prepare a cluster; `start` runs it.

        `controllers`: number of additional nodes that are only controllers, with the IDs after the
        brokers'; 0: brokers are controllers too. KRaft only.
        `properties`: broker properties on top of the defaults, the same for every node.
        `listeners`: listeners besides PLAINTEXT, security protocol by name, for example `{"SASL":
        "SASL_PLAINTEXT"}`. Their other settings belong in `properties`.
        `advertise`: maps (listener, its port) to the advertised port, for a proxy.
        `format_arguments`: arguments of StorageTool, for example `--add-scram`.
        `directory`: the data directory, which is kept; by default a temporary one.
        `logs`: the directory of `<name>-<node>.log` files; by default beside the data.
        `kafka`: Java and the jars of the version to run; by default `KAFKA_VERSION`.
        `places`: the place of each node; by default all on loopback. KRaft only.
        """
        if nodes < 1:
            raise ValueError(f"A cluster must have at least 1 node, not {nodes}")
        self.name = name
        self.cluster_id = random_id()
        self.nodes: tuple[KafkaNode, ...] = ()
        self.controllers: tuple[KafkaNode, ...] = ()
        self._zookeeper: ZooKeeper | None = None
        self._count = nodes
        self._controllers = range(nodes + 1, nodes + 1 + controllers)
        self._properties = dict(properties or {})
        self._listeners = {INTERNAL: "PLAINTEXT", **(listeners or {})}
        self._advertise = advertise
        self._format_arguments = tuple(format_arguments)
        self._jvm = jvm
        self._kafka = kafka
        self._temporary = directory is None
        self._directory = directory
        self._logs = logs
        self._places = dict(places or {})
        self._leases: list[PortLease] = []

    @property
    def bootstrap_servers(self) -> str:
        """Return all brokers' addresses, for clients without security."""
        return self.bootstrap()

    def bootstrap(self, listener: str = INTERNAL) -> str:
        """Return all brokers' addresses on one listener, separated by commas."""
        return ",".join(node.bootstrap_server(listener) for node in self.nodes)

    def node(self, node_id: int) -> KafkaNode:
        """Return the node with this ID, counted from 1."""
        return self.nodes[node_id - 1]

    def start(self, timeout_s: float = _START_TIMEOUT_S) -> Self:
        """Format and start all nodes. Returns once each of them knows all nodes.

        Raises `DeployError`; then no node is left running.
        """
        deadline = Deadline(timeout_s)
        try:
            for attempt in range(_START_ATTEMPTS):
                try:
                    self._start_once(deadline)
                    return self
                except ProcessFailed as error:
                    last = attempt + 1 == _START_ATTEMPTS or deadline.expired()
                    if last or not any(sign in str(error) for sign in _PORT_TAKEN):
                        raise
                    self._discard_nodes()
            raise AssertionError("unreachable: the last attempt returns or raises")
        except BaseException:
            self.close()
            raise

    def _advertised(self, ports: Mapping[str, int]) -> dict[str, int]:
        if self._advertise is None:
            return {}
        return {name: self._advertise(name, port) for name, port in ports.items()}

    def _start_once(self, deadline: Deadline) -> None:
        kafka = self._kafka = self._kafka or kafka_runtime()
        directory = self._directory = self._directory or Path(
            tempfile.mkdtemp(prefix=f"kafka-{self.name}-")
        )
        kraft = has_kraft(kafka.version)
        names = [*self._listeners, *([CONTROLLER] if kraft else [])]
        ports = {node: {name: self._lease() for name in names} for node in self._ids()}
        if not kraft:
            self._start_zookeeper(kafka, directory, deadline)
        made = [
            KafkaNode(
                node,
                {name: port for name, port in ports[node].items() if name != CONTROLLER},
                directory / f"node-{node}",
                (self._logs or directory) / f"{self.name}-{node}.log",
                self._broker_properties(node, ports, directory / f"node-{node}" / DATA),
                kafka,
                self._jvm,
                temporary=self._temporary,
                formatted=kraft,
                before_launch=self._before_launch(node),
                place=self._places.get(node, Place()),
            )
            for node in self._ids()
        ]
        self.nodes, self.controllers = tuple(made[: self._count]), tuple(made[self._count :])

        def start(node: KafkaNode) -> None:
            node.format(self.cluster_id, self._format_arguments)
            node.launch()
            if node.node_id not in self._controllers:  # Clients cannot query controllers.
                node.wait_until_ready(deadline.remaining(), brokers=self._count)

        _each(start, made)

    def _start_zookeeper(self, kafka: KafkaRuntime, directory: Path, deadline: Deadline) -> None:
        self._zookeeper = ZooKeeper(
            self._lease(),
            directory / "zookeeper",
            (self._logs or directory) / f"{self.name}-zookeeper.log",
            kafka,
            temporary=self._temporary,
        )
        self._zookeeper.start(deadline.remaining())

    def _before_launch(self, node: int) -> Callable[[], None] | None:
        zookeeper = self._zookeeper
        return None if zookeeper is None else partial(zookeeper.wait_until_unregistered, node)

    def _broker_properties(
        self, node: int, ports: Mapping[int, Mapping[str, int]], data: Path
    ) -> dict[str, str]:
        advertised = self._advertised(ports[node])
        if self._zookeeper is not None:
            return zookeeper_broker_properties(
                node,
                self._zookeeper.address,
                self._listeners,
                ports,
                data,
                self._properties,
                advertised,
            )
        hosts = {number: place.host for number, place in self._places.items()}
        return server_properties(
            node,
            self._listeners,
            ports,
            data,
            self._properties,
            advertised,
            hosts,
            self._controllers,
        )

    def _ids(self) -> range:
        return range(1, self._count + len(self._controllers) + 1)

    def _lease(self) -> int:
        lease = PortLease(cache_directory() / "ports")
        self._leases.append(lease)
        return lease.port

    def stop(self, timeout_s: float = 30.0) -> None:
        """Send SIGTERM to all nodes at once, and SIGKILL to those that take longer than
        `timeout_s`. Data and ports are kept. ZooKeeper, if there is one, stops last."""
        _each(lambda node: node.stop(timeout_s), self.nodes)
        _each(lambda node: node.stop(timeout_s), self.controllers)
        if self._zookeeper is not None:
            self._zookeeper.stop(timeout_s)

    def restart(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Start the nodes that are not running, and wait until every node knows all of them."""
        if self._zookeeper is not None:
            self._zookeeper.start(timeout_s)
        for node in (*self.controllers, *self.nodes):
            node.launch()
        _each(lambda node: node.wait_until_ready(timeout_s, brokers=self._count), self.nodes)

    def close(self) -> None:
        """Stop everything and free the ports. If the data is temporary, the nodes are killed and it
        is deleted; otherwise they are stopped cleanly first. May be called repeatedly."""
        if not self._temporary:
            self.stop()
        self._discard_nodes()
        if self._temporary and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _discard_nodes(self) -> None:
        for node in (*self.nodes, *self.controllers):
            node.close()
            if self._temporary:
                shutil.rmtree(node.directory, ignore_errors=True)
        if self._zookeeper is not None:
            self._zookeeper.close()
            if self._temporary:
                shutil.rmtree(self._zookeeper.directory, ignore_errors=True)
            self._zookeeper = None
        for lease in self._leases:
            lease.close()
        self._leases.clear()
        self.nodes = self.controllers = ()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _each(action: Callable[[KafkaNode], None], nodes: Iterable[KafkaNode]) -> None:
    """Run `action` for all nodes concurrently. Raises the first error after all have ended."""
    chosen = list(nodes)
    if not chosen:
        return
    with ThreadPoolExecutor(len(chosen), thread_name_prefix="kafka-node") as pool:
        for future in [pool.submit(action, node) for node in chosen]:
            future.result()
