"""What each loss policy means for each kind of loss."""

from __future__ import annotations

import pytest

from connectors.mirror.config.losses import (
    Decision,
    LossKind,
    LossPolicies,
    LossPolicy,
    decide,
)

SOURCE = {LossKind.RETENTION, LossKind.TRUNCATION, LossKind.SOURCE_RECREATED}


@pytest.mark.parametrize("kind", LossKind)
@pytest.mark.parametrize("policy", LossPolicy)
def test_every_policy_decides_every_kind(kind: LossKind, policy: LossPolicy) -> None:
    decision = decide(kind, policy)
    assert (decision is Decision.STAND) == (policy is LossPolicy.FAIL)
    # Only records that the target lost can be copied again from a known source offset.
    assert decision is not Decision.AGAIN or kind not in SOURCE
    assert LossPolicies(policy).decide(kind) is decision


def test_a_kind_may_have_a_policy_of_its_own() -> None:
    policies = LossPolicies(LossPolicy.FAIL, {LossKind.TARGET_LOSS: LossPolicy.COPY})
    assert policies.decide(LossKind.TARGET_LOSS) is Decision.AGAIN
    assert policies.decide(LossKind.TARGET_RECREATED) is Decision.STAND
