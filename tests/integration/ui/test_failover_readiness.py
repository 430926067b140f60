"""Whether consumer groups could move to the target now: asked of a running mirror and real clusters
through `/mirrors/{flow}/groups`, and shown in the dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from deploy.brokers import KafkaCluster
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.groups import commit, wait_group
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.topics import admin, alter_topic, topic_names
from tests.support.served import health_of, page
from tests.support.ui.dashboard_page import assert_accessible, picture
from tests.support.waiting import wait_until

SOON_S = 60.0
# The copies of images and refunds refuse the large record, and what comes after it waits.
MOST_BYTES, LARGE = 20_000, Record(b"x" * 50_000)
COPIED, BEHIND_LARGE = 40, 20
FRAUD = 16

Groups = dict[str, dict[str, Any]]


def delete_former(servers: str) -> None:
    former = {name for name in topic_names(servers) if re.search(r"^shop\.|paris|tokyo", name)}
    if former:
        for deleted in admin(servers).delete_topics(sorted(former)).values():
            deleted.result(SOON_S)
        wait_until(lambda: not former & topic_names(servers), SOON_S, "the deletion")


@pytest.fixture(scope="module")
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    # The names are in pictures, so they are the same when this process runs the module again.
    for servers in (source_cluster.bootstrap_servers, target_cluster.bootstrap_servers):
        delete_former(servers)
    return MirroredFlow(source_cluster, target_cluster, "shop", "paris", "tokyo")


@pytest.fixture(scope="module")
def served(
    flow: MirroredFlow, session_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The listener of a mirror with groups that read a topic that is copied; one that was copied
    without the offset map, as Java does; one whose first record cannot be copied; and one of which
    only the first records can."""
    directory = tmp_path_factory.mktemp("readiness")
    servers, payments = flow.source_servers, flow.topic("payments")
    produce(servers, payments, numbered(COPIED))
    log = session_logs / "without-map.log"
    plain = flow.properties({"mirror.offset.map.enabled": "false"})
    with running(plain, directory, log) as mirror:
        flow.wait_records(payments, [COPIED])
        flow.wait_stored(payments, 0, COPIED - 1)
        stop_cleanly(mirror, log)

    orders = flow.topic("orders", partitions=2)
    images, refunds = flow.topic("images"), flow.topic("refunds")
    lease = PortLease(cache_directory() / "ports")
    listener = f"http://{LOOPBACK}:{lease.port}"
    properties = flow.properties(
        {
            "metrics.listener": listener,
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
        }
    )
    try:
        with running(properties, directory, session_logs / "readiness.log"):
            for topic in (images, refunds):
                copy = flow.wait_created(topic)
                alter_topic(flow.target_servers, copy, {"max.message.bytes": str(MOST_BYTES)})
            produce(servers, refunds, numbered(COPIED))
            flow.wait_records(refunds, [COPIED])
            for topic in (images, refunds):
                produce(servers, topic, [LARGE])
                produce(servers, topic, numbered(BEHIND_LARGE))
            for partition in (0, 1):
                produce(servers, orders, numbered(COPIED, partition=partition))
            flow.wait_records(orders, [COPIED, COPIED])
            wait_until(lambda: len(stuck(listener)) == 2, SOON_S, "two stuck partitions")
            commit(servers, "billing", {(orders, 0): 25, (orders, 1): COPIED})
            commit(servers, "fraud", {(orders, 0): 10, (payments, 0): FRAUD})
            commit(servers, "eager", {(refunds, 0): COPIED + 15})
            commit(servers, "thumbnails", {(orders, 0): COPIED, (images, 0): 5})
            wait_group(flow.target_servers, "billing", flow.remote(orders), 25)
            yield listener
    finally:
        lease.close()


def stuck(listener: str) -> list[str]:
    """The partitions that make no progress."""
    return [
        partition["name"]
        for connector in health_of(listener)["connectors"]
        for task in connector["tasks"]
        for partition in task["partitions"]
        if partition["error"]
    ]


@pytest.fixture
def groups(flow: MirroredFlow, served: str) -> Groups:
    """The groups as the page has them, once the map has reached all that is copied."""

    def settled() -> dict[str, Any] | None:
        document: dict[str, Any] = json.loads(
            page(served, f"/mirrors/{quote(f'{flow.a}->{flow.b}')}/groups")
        )
        found = {each["group"]: each for each in document["groups"]}
        exact = found.get("billing", {}).get("synced")
        return document if exact and len(found) == 4 else None

    # The page asks the clusters at most every half minute.
    document = wait_until(settled, 2 * SOON_S, "four groups of which one is ready")
    assert document is not None
    assert document["live"] is True
    assert document["problem"] is None
    return {each["group"]: each for each in document["groups"]}


def places(group: dict[str, Any]) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    """The place on the target, and how many records are read again there, by partition."""
    return {
        (each["topic"], each["partition"]): (each["new_offset"], each["again"])
        for each in group["partitions"]
    }


def test_a_group_whose_records_are_all_copied_is_ready_at_its_exact_place(groups: Groups) -> None:
    billing = groups["billing"]
    assert (billing["ready"], billing["exact"], billing["synced"]) == (True, True, True)
    assert (billing["again"], billing["why"]) == (0, None)
    assert places(billing) == {("shop.orders", 0): (25, 0), ("shop.orders", 1): (COPIED, 0)}
    assert {each["committed"] for each in billing["partitions"]} == {25, COPIED}


def test_a_group_without_an_exact_place_is_ready_and_says_what_it_reads_again(
    groups: Groups,
) -> None:
    fraud = groups["fraud"]
    assert (fraud["ready"], fraud["exact"], fraud["why"]) == (True, False, None)
    assert fraud["again"] > 0
    assert places(fraud) == {
        ("shop.orders", 0): (10, 0),
        ("shop.payments", 0): (FRAUD - fraud["again"], fraud["again"]),
    }


def test_a_group_ahead_of_the_copy_reads_again_only_what_is_copied_later(groups: Groups) -> None:
    eager = groups["eager"]
    assert (eager["ready"], eager["exact"], eager["again"]) == (True, False, 0)
    assert places(eager) == {("shop.refunds", 0): (COPIED, 0)}


def test_a_group_that_has_no_place_on_the_target_is_not_ready_and_says_why(groups: Groups) -> None:
    thumbnails = groups["thumbnails"]
    assert (thumbnails["ready"], thumbnails["exact"], thumbnails["again"]) == (False, False, None)
    assert "1 of 2 offsets have no place on the target yet" in thumbnails["why"]
    assert "offset 5 of shop.images-0" in thumbnails["why"]
    assert places(thumbnails)["shop.images", 0] == (None, None)


def test_the_dashboard_shows_which_groups_could_move(
    groups: Groups, flow: MirroredFlow, served: str, open_page: Callable[..., Any]
) -> None:
    assert len(groups) == 4
    shown = open_page(f"{served}/", f"{quote(f'{flow.a}->{flow.b}', safe='')}/groups")
    shown.wait_for_selector("#panel table")
    # A stuck partition has a lag that time does not tell if nothing of it was copied yet.
    assert "in sync" not in (shown.locator(".edge.worst").text_content() or "")
    assert "3 of 4 ready" in shown.inner_text("#panel")
    rows = [each.inner_text() for each in shown.locator("#panel tbody tr").all()]
    # What is not ready comes first.
    assert [row.split()[0] for row in rows] == ["thumbnails", "billing", "eager", "fraud"]
    assert "not ready" in rows[0]
    assert "1 of 2 offsets have no place on the target yet" in rows[0]
    assert "nothing: exact" in rows[1]
    assert "nothing now" in rows[2]
    assert f"{groups['fraud']['again']} records" in rows[3]
    assert_accessible(shown)
    picture(shown, "failover")
    shown.click("[data-key='group fraud']")
    shown.wait_for_selector("#drawer table")
    drawer = shown.inner_text("#drawer")
    assert f"it would read {groups['fraud']['again']} records again" in drawer
    assert "shop.payments-0" in drawer
