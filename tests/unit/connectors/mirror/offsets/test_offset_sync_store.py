"""The store keeps exactly the syncs that Kafka 4.3.1 keeps, and translates as it does."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.offset_sync_store import TOO_OLD, OffsetSyncStore


def loaded(pairs: Iterable[tuple[int, int]]) -> OffsetSyncStore:
    store = OffsetSyncStore()
    for up, down in pairs:
        store.apply(OffsetSync("t", 0, up, down))
        store.validate()
    store.finish_loading()
    return store


def state(store: OffsetSyncStore) -> str:
    """As the reference writes it: slot=up:down, or slot=up where both are the same."""
    return " ".join(
        f"{slot}={s.upstream_offset}"
        + ("" if s.upstream_offset == s.downstream_offset else f":{s.downstream_offset}")
        for slot, s in store.syncs("t", 0)
    )


def same(offsets: Iterable[int]) -> list[tuple[int, int]]:
    return [(offset, offset) for offset in offsets]


@pytest.mark.parametrize(
    ("syncs", "expected"),
    [
        (same(range(11)), "0=10 1=9 2=8 3=4 4=0"),
        (
            same(range(1001)),
            "0=1000 1=999 2=998 3=996 4=992 5=976 6=960 7=896 8=768 9=512 10=0",
        ),
        (same(range(0, 301, 100)), "0=300 8=200 9=0"),
        (same(range(0, 2501, 100)), "0=2500 8=2400 9=2200 10=2000 11=1600 12=0"),
        (same(range(0, 5001, 100)), "0=5000 8=4900 9=4800 10=4400 11=4000 12=3200 13=0"),
        (
            same(range(0, 10001, 100)),
            "0=10000 8=9900 9=9800 10=9600 11=8800 12=8000 13=6400 14=0",
        ),
        ([(1000, 500), (2000, 900), (500, 300)], "0=500:300"),
        ([(100, 100), (100, 200)], "0=100:200 1=100"),
        ([(100, 100), (100, 200), (101, 201)], "0=101:201 1=100"),
        ([(100, 100), (100, 200), (101, 201), (103, 203)], "0=103:203 2=101:201 3=100"),
        ([(100, 100), (100, 200), (101, 201), (103, 203), (110, 210)], "0=110:210 5=100"),
    ],
)
def test_states_are_those_of_kafka(syncs: list[tuple[int, int]], expected: str) -> None:
    assert state(loaded(syncs)) == expected


@pytest.mark.parametrize(
    ("upstream", "downstream"),
    [
        (0, 5),
        (1, 6),
        (5000, 6),
        (9999, 9906),
        (10000, 10005),
        (10001, 10006),
        (20000, 10006),
    ],
)
def test_translations_are_those_of_kafka(upstream: int, downstream: int) -> None:
    store = loaded((100 * i, 100 * i + 5) for i in range(101))
    assert store.translate("t", 0, upstream) == downstream


def test_nothing_is_translated_before_the_topic_was_read() -> None:
    store = OffsetSyncStore()
    store.apply(OffsetSync("t", 0, 5, 7))
    assert store.translate("t", 0, 5) is None
    store.finish_loading()
    assert store.translate("t", 0, 5) == 7
    assert store.translate("t", 0, 4) == TOO_OLD
    assert store.translate("t", 1, 5) is None
    assert store.translate("u", 0, 5) is None


def test_only_the_newest_is_kept_while_loading_where_checkpoints_could_not_be_read() -> None:
    store = OffsetSyncStore(keep_all_while_loading=False)
    for up in range(0, 1000, 100):
        store.apply(OffsetSync("t", 0, up, up))
    store.finish_loading()
    assert state(store) == "0=900"
    store.apply(OffsetSync("t", 0, 1000, 1000))
    assert state(store) == "0=1000 8=900"


@given(st.lists(st.tuples(st.integers(0, 1 << 62), st.integers(0, 1 << 62)), max_size=60))
def test_the_invariants_hold_for_any_syncs(pairs: list[tuple[int, int]]) -> None:
    loaded(pairs)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=80), st.integers(0, 30_000))
def test_a_translation_never_leaves_out_a_record(steps: list[int], position: int) -> None:
    """Of a copy that begins at 7 and has the source's distances."""
    ups = [sum(steps[: i + 1]) for i in range(len(steps))]
    found = loaded((up, up + 7) for up in ups).translate("t", 0, position)
    assert found is not None
    assert found <= position + 7


def test_a_sync_of_what_the_target_lost_gives_way_to_an_older_one() -> None:
    store = OffsetSyncStore()
    for upstream, downstream in [(0, 0), (5, 4), (14, 12)]:
        store.apply(OffsetSync("t", 0, upstream, downstream))
    store.finish_loading()
    newest, older = store.nearest("t", 0, 16), store.nearest("t", 0, 16, below=9)
    assert newest is not None
    assert newest.downstream_offset == 12
    assert older is not None
    assert older.downstream_offset < 9
