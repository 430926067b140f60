"""Memory is counted while anybody holds it, and handed to those who wait in turn."""

from __future__ import annotations

import pytest

from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget, SharedMemory

MIB = 1024 * 1024


def test_a_buffer_counts_until_its_last_holder_lets_go() -> None:
    budget = MemoryBudget(16 * MIB)
    memory = budget.pool.acquire(2 * MIB)
    buffer = FetchBuffer(budget, memory, held=True)
    buffer.retain()
    buffer.release()
    assert (budget.used, budget.free) == (2 * MIB, 14 * MIB)
    buffer.release()
    assert budget.used == 0
    assert budget.pool.acquire(2 * MIB) is memory


def test_abandoned_memory_is_not_used_again() -> None:
    budget = MemoryBudget(16 * MIB)
    memory = budget.pool.acquire(2 * MIB)
    buffer = FetchBuffer(budget, memory, held=True)
    buffer.retain()
    buffer.abandon()
    buffer.release()
    assert budget.used == 0
    assert budget.pool.acquire(2 * MIB) is not memory


def test_readers_are_admitted_in_the_order_they_came() -> None:
    budget = MemoryBudget(10)
    budget.used = 8
    assert not budget.admit("first", 5)
    assert not budget.admit("second", 5)
    budget.used = 5
    assert not budget.admit("second", 5)
    assert not budget.admit("newcomer", 1)
    assert budget.admit("first", 5)
    assert budget.admit("second", 5)


def test_a_reader_that_gives_up_holds_nobody_back() -> None:
    budget = MemoryBudget(10)
    budget.used = 8
    assert not budget.admit("first", 5)
    assert not budget.admit("second", 2)
    budget.withdraw("first")
    assert budget.admit("second", 2)
    budget.withdraw("never came")


def test_an_urgent_reader_waits_for_no_other_and_exceeds_the_limit_once() -> None:
    budget = MemoryBudget(10)
    budget.used = 8
    assert not budget.admit("first", 5)
    assert budget.admit("urgent", 4, urgent=True)
    budget.used += 4
    assert not budget.admit("urgent", 4, urgent=True)
    budget.used = 5
    assert budget.admit("first", 5)


def test_all_readers_fetches_together_leave_room_for_what_is_on_its_way() -> None:
    budget = MemoryBudget(64 * MIB)
    for readers in (1, 4, 5, 50, 1_000):
        budget.readers = readers
        assert 0 < budget.response_bytes(0.0) <= budget.limit // 8
        assert readers * budget.response_bytes(0.0) <= budget.limit // 2


def test_over_a_long_way_a_fetch_brings_more_but_leaves_the_same_room() -> None:
    budget = MemoryBudget(64 * MIB)
    budget.readers = 1
    assert budget.response_bytes(0.001) == 8 * MIB
    assert budget.response_bytes(0.1) == 25_000_000
    assert budget.response_bytes(10.0) == 32 * MIB
    for readers in (1, 4, 5, 50, 1_000):
        budget.readers = readers
        assert readers * budget.response_bytes(0.3) <= budget.limit // 2


def test_for_a_long_way_the_limit_grows_as_far_as_it_may() -> None:
    budget = MemoryBudget(32 * MIB, most=64 * MIB)
    budget.readers = 1
    budget.reach(0.001)
    assert budget.limit == 32 * MIB
    budget.reach(0.05)
    assert (budget.limit, budget.response_bytes(0.05)) == (37_500_000, 12_500_000)
    budget.reach(1.0)
    assert budget.limit == 64 * MIB


def test_a_limit_that_somebody_set_stays() -> None:
    budget = MemoryBudget(16 * MIB)
    budget.reach(1.0)
    assert budget.limit == 16 * MIB


def sharing(*limits: int) -> list[MemoryBudget]:
    shared = SharedMemory()
    return [MemoryBudget(limit, shared=shared) for limit in limits]


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 10, 100])
def test_all_tasks_together_hold_no_more_than_one_would(tasks: int) -> None:
    budgets = sharing(*[32 * MIB] * tasks)
    taken = True
    while taken:
        taken = False
        for budget in budgets:
            budget.readers = 1
            size = budget.response_bytes(0.0)
            if budget.admit(budget, size):
                budget.used += size
                taken = True
    assert 28 * MIB <= sum(budget.used for budget in budgets) <= 32 * MIB
    assert sum(budget.pool.max_free for budget in budgets) <= 8 * MIB


def test_a_task_that_holds_all_it_can_leaves_each_other_two_fetches() -> None:
    slow, *others = sharing(*[32 * MIB] * 8)
    slow.used += slow.free
    assert slow.used == 18 * MIB
    for other in others:
        other.readers = 1
        for _ in range(2):
            size = other.response_bytes(0.0)
            assert size == MIB
            assert other.admit(other, size)
            other.used += size
        assert not other.admit(other, MIB)


def test_a_task_whose_neighbours_hold_nothing_gets_more_than_its_part() -> None:
    busy, *_ = sharing(*[32 * MIB] * 4)
    assert busy.free == 20 * MIB


def test_a_task_that_ends_leaves_its_part_to_the_others() -> None:
    first, second = sharing(32 * MIB, 32 * MIB)
    assert first.free == 24 * MIB
    second.close()
    assert first.free == 32 * MIB
    assert first.pool.max_free == 8 * MIB


def test_no_task_holds_more_than_its_own_limit() -> None:
    small, large = sharing(4 * MIB, 32 * MIB)
    assert small.free == 4 * MIB
    assert large.free == 24 * MIB


def test_buffers_kept_for_reuse_make_room_for_those_of_a_new_task() -> None:
    shared = SharedMemory()
    budget = MemoryBudget(16 * MIB, shared=shared)
    buffers = [budget.pool.acquire(MIB) for _ in range(5)]
    for buffer in buffers[:4]:
        budget.pool.release(buffer)
    others = [MemoryBudget(16 * MIB, shared=shared) for _ in range(3)]
    budget.pool.release(buffers[4])
    again = [budget.pool.acquire(MIB) for _ in range(2)]
    assert sum(any(each is kept for kept in buffers) for each in again) == 1
    assert len(others) == 3
