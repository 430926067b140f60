"""`--check` of workers: whether the cluster answers and which topics would be created. Changes
nothing."""

from __future__ import annotations

from collections.abc import Mapping

from api.cli.program import EXIT_OK
from api.cli.worker_start.cluster_contact import unreachable
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.topic_log import TopicSpec
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError

__all__ = ["EXIT_IN_THE_WAY", "check_worker"]

EXIT_IN_THE_WAY = 3
_TIMEOUT_S = 10.0


def check_worker(config: WorkerConfig, topics: Mapping[str, TopicSpec]) -> int:
    """Print what the worker would find. `topics`: its internal topics by the first word of their
    keys. Returns the exit code: 0, or 3 if something would keep it from working."""
    client = config.own_client_properties("check")
    trouble = unreachable(client)
    if trouble is not None:
        print(f"error: {trouble}")
        return EXIT_IN_THE_WAY
    admin = Admin(client)
    try:
        existing = admin.list_topics(_TIMEOUT_S)
        brokers = admin.broker_count(_TIMEOUT_S)
    except ConnectError as error:
        print(f"error: {error}")
        return EXIT_IN_THE_WAY
    finally:
        admin.close()
    print(f"cluster\t{client.get('bootstrap.servers', '')}\t{brokers} brokers")
    code = EXIT_OK
    for family, topic in topics.items():
        if topic.name in existing:
            print(f"topic\t{topic.name}\texists\t{existing[topic.name]} partitions")
            continue
        print(f"topic\t{topic.name}\tcreate\t{topic.partitions} partitions")
        if topic.replication_factor > brokers:
            code = EXIT_IN_THE_WAY
            print(
                f"error: {family}.storage.replication.factor={topic.replication_factor} is higher "
                f"than the number of brokers, {brokers}: lower it or start more brokers"
            )
    if code == EXIT_OK:
        print("No error was found. Nothing was changed.")
    return code
