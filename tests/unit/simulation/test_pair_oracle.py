"""What the copier's oracle says of a committed position that is before the target's last record."""

from __future__ import annotations

import pytest

from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from tests.simulation.copier.pair_oracle import Broken, PairOracle
from tests.simulation.copier.truth import SourceTruth


def _loss(kind: LossKind, first: int, end: int, resume: int) -> Loss:
    return Loss(kind, LossPolicy.COPY, ("topic", 0), ("copy", 0), first, end, first, resume)


@pytest.fixture
def pair() -> PairOracle:
    """Ten records, of which six are on the target; then the log was cut off and copying is to begin
    again at record 2, and the source deleted everything before record 4."""
    truth = SourceTruth()
    truth.written(0, 10, in_transaction=False)
    pair = PairOracle("topic-0", truth, read_committed=False)
    pair.begins_at(0, 0, knows_topic=True)
    pair.feed(range(6), 0)
    for loss in (_loss(LossKind.TRUNCATION, 6, 8, 2), _loss(LossKind.RETENTION, 2, 4, 4)):
        assert loss.resume is not None
        pair.goes_back(loss.resume, 6)
        pair.loss_reported(loss)
    truth.deleted_before(4)
    return pair


def test_a_position_that_a_loss_moved_back_may_stay_until_something_is_copied(
    pair: PairOracle,
) -> None:
    pair.check_not_beyond(2)


def test_records_that_are_copied_from_there_need_a_new_position(pair: PairOracle) -> None:
    pair.feed((4, 5, 6), 6)
    with pytest.raises(Broken, match="the stored position is 2"):
        pair.check_not_beyond(2)
    pair.check_not_beyond(7)


def test_no_loss_explains_another_position(pair: PairOracle) -> None:
    with pytest.raises(Broken, match="the stored position is 3"):
        pair.check_not_beyond(3)
