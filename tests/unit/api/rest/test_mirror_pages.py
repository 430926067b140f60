"""The data of the dashboard below `/mirrors`, and `/ui`."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from api.dashboard.readiness import group_readiness
from api.dashboard.remedies import remedy
from connectors.mirror.failover import MovedOffset, MovePlan
from tests.support.rest import Answer, call
from tests.support.ui.dashboard_group import (
    DashboardHerder,
    Flow,
    broken_group,
    partitions,
    write_history,
)
from tests.support.waiting import wait_until
from tests.unit.api.started import StartServer


@pytest.fixture
def history(tmp_path: Path) -> Path:
    write_history(tmp_path / "h.db", [("us", "hub")], hours=2)
    return tmp_path / "h.db"


@pytest.fixture
def broken(start_server: StartServer, history: Path) -> str:
    return start_server(broken_group(history))


def ask(url: str, path: str) -> Answer:
    answer = call(url, "GET", path)
    assert answer.status == 200, answer.body
    return answer


def test_flows_at_a_glance(broken: str) -> None:
    document = ask(broken, "/mirrors").json()
    assert document["viewer"] == {"user": None, "role": "admin", "connectors": True}
    flows = {each["name"]: each for each in document["flows"]}
    assert {name: each["health"] for name, each in flows.items()} == {
        "us->hub": "stuck",
        "hub->us": "ok",
        "eu->hub": "ok",
        "asia->hub": "lagging",
        "hub->archive": "unknown",
        "hub->analytics": "ok",
    }
    worst = flows["us->hub"]
    assert (worst["partitions"], worst["stuck"], worst["lost_records"]) == (624, 1, 1_312)
    assert worst["time_to_loss_seconds"] == 1.2 * 3600
    missing = [each for each in flows["hub->archive"]["workers"] if each["problem"]]
    assert [each["id"] for each in missing] == ["mirror-2:8083"]


def test_an_unchanged_answer_is_not_sent_again(broken: str) -> None:
    first = ask(broken, "/mirrors/us->hub/heat")
    again = call(
        broken, "GET", "/mirrors/us->hub/heat", headers={"If-None-Match": first.headers["etag"]}
    )
    assert (again.status, again.body) == (304, b"")


def test_partitions_are_sorted_and_cut_on_the_server(broken: str) -> None:
    found = ask(broken, "/mirrors/us->hub/partitions?sort=loss&limit=2").json()
    assert found["total"] == 6
    assert [(each["topic"], each["partition"]) for each in found["partitions"]] == [
        ("orders.v2", 6),
        ("orders", 5),
    ]
    one = ask(broken, "/mirrors/us->hub/partitions?contains=telemetry-23").json()
    assert one["total"] == 11
    # As Java's server answers a parameter that it cannot take.
    assert call(broken, "GET", "/mirrors/us->hub/partitions?limit=2001").status == 404


def test_the_heat_map_leaves_out_the_best_topics(broken: str) -> None:
    found = ask(broken, "/mirrors/us->hub/heat?cells=50").json()
    assert [each["topic"] for each in found["topics"]] == ["orders", "orders.v2"]
    assert (found["omitted_topics"], found["omitted_partitions"]) == (15, 576)
    assert found["topics"][0]["levels"][5] == "7"
    assert found["topics"][1]["levels"][6:8] == "66"


def test_a_partition_with_its_remedy_and_ranges(broken: str) -> None:
    found = ask(broken, "/mirrors/us->hub/partitions/orders/5").json()
    assert "mirror.quarantine.topic" in found["remedy"]
    assert found["ranges"][0]["source_end"] == 5_120_377
    assert [each["kind"] for each in found["events"]] == ["stuck"]
    answer = call(broken, "GET", "/mirrors/us->hub/partitions/orders/500")
    assert answer.error == (404, "No task of us->hub copies orders-500")


def test_series_events_and_jobs(broken: str) -> None:
    series = ask(broken, "/mirrors/us->hub/series?hours=1&points=60").json()
    assert series["step_ms"] == 60_000
    assert len(series["points"]) >= 60
    assert all(each["records_per_second"] > 0 for each in series["points"][1:-1])
    kinds = [each["kind"] for each in ask(broken, "/mirrors/us->hub/events").json()["events"]]
    assert kinds == ["stuck", "retention", "changed"]
    jobs = ask(broken, "/mirrors/us->hub/jobs").json()["jobs"]
    assert {each["kind"]: each["done"] for each in jobs} == {"backfill": 131, "audit": 624}


def has_tables(file: Path) -> bool:
    """Whether the history has made its tables, and not only its file."""
    if not file.exists():
        return False
    connection = sqlite3.connect(file)
    tables = {name for (name,) in connection.execute("select name from sqlite_master")}
    connection.close()
    return "mirror_events" in tables


def test_a_change_is_in_the_history_with_who_made_it(
    start_server: StartServer, tmp_path: Path
) -> None:
    herder = DashboardHerder()
    Flow("us", "eu", partitions({"orders": 3})).add_to(herder, tmp_path / "h.db")
    url = start_server(herder)
    assert call(url, "PUT", "/connectors/us-eu-source/pause").status == 202
    assert call(url, "PUT", "/connectors/nobody/pause").status == 404

    def events() -> list[str]:
        return [each["text"] for each in ask(url, "/mirrors/us->eu/events").json()["events"]]

    wait_until(lambda: has_tables(tmp_path / "h.db") and events() != [], 60.0, "the event")
    assert events() == ["127.0.0.1: PUT /connectors/us-eu-source/pause"]
    connection = sqlite3.connect(tmp_path / "h.db")
    kinds = connection.execute("select kind, connector from mirror_events").fetchall()
    connection.close()
    assert kinds == [("changed", "us-eu-source")]


def test_a_flow_that_is_not_there(broken: str) -> None:
    for path in ("heat", "series", "events", "jobs", "groups", "partitions", "partitions/t/0"):
        answer = call(broken, "GET", f"/mirrors/a->b/{path}")
        assert answer.error[0] == 404
        assert "There is no flow a->b; flows: asia->hub" in answer.error[1]


def test_the_page_and_its_files_allow_nothing_from_elsewhere(broken: str) -> None:
    page = call(broken, "GET", "/ui", headers={"Accept": "text/html"})
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "unsafe" not in policy
    for name in ("app.js", "app.css", "icon.svg"):
        assert f"/ui/{name}".encode() in page.body
        assert call(broken, "GET", f"/ui/{name}", headers={}).status == 200
    assert call(broken, "GET", "/ui/__init__.py", headers={}).status == 404


def offset(group: str, partition: int, new: int | None, again: int | None) -> MovedOffset:
    return MovedOffset(group, "t", "a.t", partition, 100, new, again, has=new)


def test_groups_that_are_not_ready_come_first_and_say_why() -> None:
    rows = [
        offset("exact", 0, 90, 0),
        offset("exact", 1, 90, 0),
        offset("late", 0, None, None),
        offset("late", 1, 90, 3),
    ]
    late, refused, exact = group_readiness(MovePlan(rows, True, {"secret": "no permission"}))
    assert (late.group, late.ready, late.again) == ("late", False, None)
    assert late.why is not None
    assert late.why.startswith("1 of 2 offsets have no place on the target yet")
    assert (refused.group, refused.why) == ("secret", "no permission")
    assert (exact.ready, exact.synced, exact.exact, exact.again) == (True, True, True, 0)


def test_a_group_ahead_of_the_copy_has_no_exact_place() -> None:
    row = replace(offset("ahead", 0, 90, 0), later=10)
    [ahead] = group_readiness(MovePlan([row], True, {}))
    assert (ahead.ready, ahead.exact, ahead.again) == (True, False, 0)


@pytest.mark.parametrize(
    ("error", "limit", "losing", "part"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", None, False, "Grant Read"),
        ("cannot connect to b:9092: refused", None, False, "advertised address"),
        ("something new", None, False, "worker's log"),
        (None, "mirror.rate.bytes", False, "mirror.rate.bytes"),
        (None, "mirror.rate.bytes", True, "retention.ms"),
    ],
)
def test_remedies(error: str | None, limit: str | None, losing: bool, part: str) -> None:
    found = remedy(error, limit, losing)
    assert found is not None
    assert part in found


def test_nothing_has_to_be_done() -> None:
    assert remedy(None, None, False) is None
