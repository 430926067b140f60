"""What of a changed mm2.properties counts while its flows run. No flow is started."""

from __future__ import annotations

import pytest

from connect.clock import Deadline
from connect.errors import ConfigError
from connectors.mirror.config.base import JAVA_PACKAGE
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
    (flow,) = [flow for flow in maker._flows.values() if flow.plan.name == "A->B"]
    source = flow.plan.connectors["MirrorSourceConnector"]
    return {key: value for key, value in source.items() if key.startswith("mirror.rate.")}


def test_limits_of_all_flows_or_of_one_are_taken_over(maker: MirrorMaker) -> None:
    maker.renew(config(mirror__rate__bytes="1MB"), Deadline(5))
    assert rates(maker) == {"mirror.rate.bytes": "1MB"}
    maker.renew(config(mirror__rate__bytes=None, A_to_B__mirror__rate__records="50"), Deadline(5))
    assert rates(maker) == {"mirror.rate.records": "50"}
    maker.renew(config(), Deadline(5))
    assert rates(maker) == {"mirror.rate.bytes": "10MB"}


def names(maker: MirrorMaker) -> set[str]:
    return {flow.plan.name for flow in maker._flows.values()}


def test_flows_are_added_changed_and_removed_while_the_others_go_on(maker: MirrorMaker) -> None:
    running = dict(maker._flows)
    third = {"C__bootstrap__servers": "127.0.0.1:3", "A_to_C__enabled": "true"}
    maker.renew(config(clusters="A, B, C", **third), Deadline(5))
    assert names(maker) == {"A->B", "B->A", "A->C", "C->A", "B->C", "C->B"}
    assert maker._flows["A->B"] is running["A->B"]

    maker.renew(config(A_to_B__topics="u"), Deadline(5))
    assert names(maker) == {"A->B", "B->A"}
    assert maker._flows["A->B"] is running["A->B"]
    assert maker._flows["A->B"].plan.connectors["MirrorSourceConnector"]["topics"] == "u"
    assert maker.stop(Deadline(5))


def test_a_flow_whose_worker_changes_starts_again(maker: MirrorMaker) -> None:
    running = dict(maker._flows)
    maker.renew(config(B__producer__linger__ms="7"), Deadline(5))
    assert maker._flows["A->B"] is not running["A->B"]
    assert maker._flows["B->A"] is running["B->A"]
    assert maker.stop(Deadline(5))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metrics__listener": ""}, r"Restart to apply metrics\.listener"),
        ({"B_to_A__enabled": "true", "B_to_A__tasks__max": "none"}, r"B->A\.tasks\.max"),
        ({"clusters": "A"}, "Nothing to run"),
        (
            {
                "B_to_A__enabled": "true",
                "B_to_A__topics": "t",
                "replication__policy__class": f"{JAVA_PACKAGE}IdentityReplicationPolicy",
            },
            "back and forth without end",
        ),
    ],
)
def test_of_a_file_that_cannot_be_applied_nothing_counts(
    maker: MirrorMaker, changes: dict[str, str | None], said: str
) -> None:
    running = dict(maker._flows)
    with pytest.raises(ConfigError, match=said):
        maker.renew(config(mirror__rate__bytes="1MB", **changes), Deadline(5))
    assert dict(maker._flows) == running
    assert rates(maker) == {"mirror.rate.bytes": "10MB"}


def test_of_a_wrong_limit_nothing_counts(maker: MirrorMaker) -> None:
    with pytest.raises(ConfigError, match=r"mirror\.rate\.bytes") as raised:
        maker.renew(config(mirror__rate__bytes="fast", mirror__rate__records="50"), Deadline(5))
    assert raised.value.value == "fast"
    assert rates(maker) == {"mirror.rate.bytes": "10MB"}


def test_only_the_connector_that_copies_has_limits() -> None:
    plans = MirrorMaker(config(A_to_B__mirror__rate__records="50"))._flows["A->B"].plan
    with_limits = [
        name
        for name, props in plans.connectors.items()
        if any(key.startswith("mirror.rate.") for key in props)
    ]
    assert with_limits == ["MirrorSourceConnector"]
