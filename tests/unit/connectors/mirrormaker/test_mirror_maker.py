"""What of a changed mm2.properties counts while its flows run. No flow is started."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.mirror_maker import MirrorMaker

RUNS = {
    "clusters": "A, B",
    "A.bootstrap.servers": "127.0.0.1:1",
    "B.bootstrap.servers": "127.0.0.1:2",
    "A->B.enabled": "true",
    "A->B.topics": "t",
    "mirror.rate.bytes": "10MB",
}


def config(**changes: str | None) -> MirrorMakerConfig:
    """Names have `__` for `.` and `_to_` for `->`; None: not set."""
    changed = {
        key.replace("__", ".").replace("_to_", "->"): value for key, value in changes.items()
    }
    merged = {**RUNS, **changed}
    return MirrorMakerConfig.from_properties(
        {key: value for key, value in merged.items() if value is not None}
    )


@pytest.fixture
def maker() -> MirrorMaker:
    return MirrorMaker(config())


def rates(maker: MirrorMaker) -> dict[str, str]:
    """What the flow's source connector is to have."""
    (flow,) = [flow for flow in maker._flows if flow.plan.name == "A->B"]
    source = flow.plan.connectors["MirrorSourceConnector"]
    return {key: value for key, value in source.items() if key.startswith("mirror.rate.")}


def test_limits_of_all_flows_or_of_one_are_taken_over(maker: MirrorMaker) -> None:
    maker.renew(config(mirror__rate__bytes="1MB"))
    assert rates(maker) == {"mirror.rate.bytes": "1MB"}
    maker.renew(config(mirror__rate__bytes=None, A_to_B__mirror__rate__records="50"))
    assert rates(maker) == {"mirror.rate.records": "50"}
    maker.renew(config())
    assert rates(maker) == {"mirror.rate.bytes": "10MB"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"A_to_B__topics": "u"}, "A->B.topics"),
        ({"A__bootstrap__servers": "127.0.0.1:3"}, "A.bootstrap.servers"),
        ({"B_to_A__enabled": "true"}, "B->A.enabled"),
        ({"A_to_B__topics": None}, "A->B.topics"),
    ],
)
def test_of_a_change_that_takes_a_restart_nothing_counts(
    maker: MirrorMaker, changes: dict[str, str | None], named: str
) -> None:
    with pytest.raises(ConfigError, match="Restart to apply") as raised:
        maker.renew(config(mirror__rate__bytes="1MB", **changes))
    assert raised.value.key == named
    assert rates(maker) == {"mirror.rate.bytes": "10MB"}


def test_of_a_wrong_limit_nothing_counts(maker: MirrorMaker) -> None:
    with pytest.raises(ConfigError, match=r"mirror\.rate\.bytes") as raised:
        maker.renew(config(mirror__rate__bytes="fast", mirror__rate__records="50"))
    assert raised.value.value == "fast"
    assert rates(maker) == {"mirror.rate.bytes": "10MB"}


def test_only_the_connector_that_copies_has_limits() -> None:
    plans = MirrorMaker(config(A_to_B__mirror__rate__records="50"))._flows[0].plan
    with_limits = [
        name
        for name, props in plans.connectors.items()
        if any(key.startswith("mirror.rate.") for key in props)
    ]
    assert with_limits == ["MirrorSourceConnector"]
