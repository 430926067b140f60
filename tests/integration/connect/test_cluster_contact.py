"""A worker's cluster goes away while the worker runs, and comes back."""

from __future__ import annotations

import logging

import pytest

from api.cli.worker_start.cluster_contact import ClusterContact
from deploy.brokers import KafkaCluster
from tests.support.copier.proxy import TcpProxy
from tests.support.waiting import wait_until

WAIT_S = 30.0
OFTEN_S = 0.1


def test_the_cause_is_known_while_it_lasts_and_logged_when_it_is_new(
    target_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(target_cluster.bootstrap_servers.split(",")[0].rpartition(":")[2])
    with TcpProxy(port) as proxy, caplog.at_level(logging.INFO):
        contact = ClusterContact(
            {"bootstrap.servers": proxy.address}, again_s=OFTEN_S, look_s=OFTEN_S
        )
        contact.start()
        try:
            wait_until(lambda: contact.attempts > 1, WAIT_S, "attempts that succeed")
            assert contact.trouble is None

            proxy.cut()
            trouble = str(wait_until(lambda: contact.trouble, WAIT_S, "the cause"))
            assert f"Cannot reach the worker's cluster at {proxy.address}: " in trouble
            attempts = contact.attempts

            proxy.heal()
            wait_until(lambda: contact.trouble is None, WAIT_S, "the cluster to answer again")
            assert contact.attempts > attempts
        finally:
            contact.stop()
    told = [r.getMessage() for r in caplog.records if "worker's cluster" in r.getMessage()]
    assert told[-1] == "The worker's cluster answers now"
    # A cause is told when it is new, not at each attempt.
    assert len(told) == len(set(told)), told
