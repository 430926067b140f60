"""Groups that move to the target and back, as the history tells."""

from __future__ import annotations

from connectors.mirror.checkpoints.moved_groups import MovedGroups

GROUPS = ("billing", "orders", "stock")


def look(moved: MovedGroups, *active: str, groups: tuple[str, ...] = GROUPS) -> list[str]:
    return [f"{event.action}: {event.text}" for event in moved.look(groups, active)]


def test_a_group_that_gets_members_on_the_target_has_moved_there() -> None:
    moved = MovedGroups("west")
    assert look(moved) == []
    assert look(moved, "billing") == [
        "to the target: Group billing has members on west now. Its offsets there are its own, "
        "and are no longer synced. Kafka does not tell who moved it"
    ]
    assert look(moved, "billing") == []


def test_one_that_loses_them_is_back() -> None:
    moved = MovedGroups("west")
    look(moved)
    look(moved, "billing", "orders")
    assert look(moved, "orders") == [
        "from the target: Group billing has no members on west any more. Its offsets there are "
        "synced again. Kafka does not tell who moved it"
    ]


def test_where_a_group_is_when_it_is_first_seen_is_no_event() -> None:
    moved = MovedGroups("west")
    assert look(moved, "billing") == []
    assert len(look(moved, "orders")) == 2
    assert look(moved, "orders", "new", groups=(*GROUPS, "new")) == []


def test_a_group_that_is_no_longer_translated_has_not_moved_back() -> None:
    moved = MovedGroups("west")
    look(moved, "billing")
    assert look(moved, groups=("orders",)) == []


def test_the_event_is_of_the_whole_flow() -> None:
    moved = MovedGroups("west")
    look(moved)
    (event,) = moved.look(GROUPS, {"stock"})
    assert (event.kind, event.topic, event.partition) == ("moved", "", -1)
