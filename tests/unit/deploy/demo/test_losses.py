"""Nothing lost: what the comparison of two partitions says."""

from __future__ import annotations

import pytest

from deploy.demo.comparing import Content
from deploy.demo.losses import Losses, compare_partition, compare_state


def records(*numbers: int) -> list[Content]:
    return [Content(b"k%d" % (number % 2), b"%d" % number, number, ()) for number in numbers]


def test_a_range_that_was_copied_twice_is_not_a_loss() -> None:
    source, target = records(0, 1, 2, 3), records(0, 1, 2, 1, 2, 3)
    assert compare_partition("t-0", source, target) == Losses(4, 2)


@pytest.mark.parametrize(
    ("target", "equal", "words"),
    [
        ((0, 1, 2), 3, "t-0: 1 records are missing at the end"),
        ((0, 1, 2, 3, 4), 4, "t-0: 1 records of the copy are not in the source"),
    ],
)
def test_what_is_missing_or_too_much_is_told(
    target: tuple[int, ...], equal: int, words: str
) -> None:
    source = records(0, 1, 2, 3)
    assert compare_partition("t-0", source, records(*target)) == Losses(equal, 0, words)


@pytest.mark.parametrize("target", [(0, 2, 3), (0, 2, 1, 3), (0, 1, 7, 3)])
def test_a_hole_another_order_and_another_record_are_differences(target: tuple[int, ...]) -> None:
    found = compare_partition("t-0", records(0, 1, 2, 3), records(*target))
    assert found.different is not None
    assert "differs from" in found.different


def test_of_compacted_topics_the_last_record_of_each_key_counts() -> None:
    assert compare_state("t-0", records(0, 1, 2, 3), records(2, 3)) == Losses(2)
    found = compare_state("t-0", records(0, 1, 2, 3), records(0, 3))
    assert found == Losses(1, 0, "t-0: the last records of 1 keys differ")


def test_the_first_difference_is_kept_and_figures_add_up() -> None:
    total = Losses(1, 2).plus(Losses(3, 4, "first")).plus(Losses(5, 6, "second"))
    assert total == Losses(9, 12, "first")
