"""Where records came from, as the flows' records on a cluster say."""

from __future__ import annotations

import pytest

from connect.errors import CorruptData
from connectors.mirror.topics.provenance import (
    Copied,
    FlowRecord,
    Hop,
    ancestry,
    flow_key,
    loop_detail,
    loop_of,
)

NOW = 1_000_000
VALID = 60_000


def record(cluster: str, topics: dict[str, Copied], renewed: int = NOW) -> FlowRecord:
    return FlowRecord(f"id-{cluster}", cluster, renewed, VALID, topics)


def test_a_record_comes_back_as_it_was_written() -> None:
    hops = (Hop("id-C", "C", "c.t", 5), Hop("id-D", "D", "t", 7))
    written = record("A", {"A.t": Copied("t", 9), "A.c.t": Copied("c.t", 10, hops)})
    assert FlowRecord.decode(written.encode()) == written


def test_many_topics_fit_into_a_record() -> None:
    topics = {f"A.orders-{n}": Copied(f"orders-{n}", NOW) for n in range(20_000)}
    assert len(record("A", topics).encode()) < 500_000


@pytest.mark.parametrize("value", [b"", b"{}", b"x\x9c"])
def test_what_is_no_record_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptData):
        FlowRecord.decode(value)


def test_ancestors_are_found_over_all_hops_and_each_cluster_once() -> None:
    c = Hop("id-C", "C", "t", 1)
    records = [
        record("A", {"t": Copied("t", 5, (c, Hop("id-B", "B", "t", 2)))}),
        record("C", {"t": Copied("t", 6), "other": Copied("other", 7)}),
    ]
    found = ancestry(records, "t", "id-B", NOW)
    assert found == (Hop("id-A", "A", "t", 5), c), "B itself is not where B's records came from"
    assert ancestry(records, "other", "id-B", NOW) == (Hop("id-C", "C", "other", 7),)
    assert ancestry(records, "local", "id-B", NOW) == ()


def test_a_flow_that_is_gone_does_not_count() -> None:
    gone = record("A", {"t": Copied("t", 5)}, renewed=NOW - VALID)
    assert ancestry([gone], "t", "id-B", NOW) == ()


def test_a_loop_is_found_by_the_clusters_id_and_told_with_both_aliases() -> None:
    hops = (Hop("id-A", "A", "t", 5), Hop("id-C", "east", "orders", 6))
    loop = loop_of(hops, "id-C")
    assert loop == hops[1]
    assert "topic orders of C (there east), the target" in loop_detail(loop, "C")
    assert loop_of(hops, "id-X") is None


def test_flows_between_the_same_clusters_have_records_of_their_own() -> None:
    assert flow_key("A", "B", "one") != flow_key("A", "B", "two")
