"""Pulled metrics: read when asked for, and only then."""

from __future__ import annotations

import logging

import pytest

from connect.metrics.registry import REGISTRY_GROUP, MetricRegistry, MetricSample, MetricValue


def own_failures(samples: list[MetricSample]) -> MetricValue:
    return next(s for s in samples if s.group == REGISTRY_GROUP).values["failed-read-count"]


def test_nothing_is_read_until_somebody_asks() -> None:
    registry, reads = MetricRegistry(), []

    def read() -> dict[str, float]:
        reads.append(1)
        return {"task-count": 2}

    registry.register("connect-worker-metrics", {}, read)
    assert not reads

    assert registry.collect()[0] == MetricSample("connect-worker-metrics", {}, {"task-count": 2})
    assert len(reads) == 1


def test_one_group_is_read_without_the_others() -> None:
    registry, reads = MetricRegistry(), []

    def read() -> dict[str, float]:
        reads.append(1)
        return {"lag": 2}

    registry.register("jobs", {"job": "a"}, lambda: {"x": 1})
    registry.register("partitions", {}, read)
    registry.register_samples("any", lambda: [MetricSample("jobs", {"job": "b"}, {"x": 2})])
    registry.scoped({"flow": "f"}).register("jobs", {"job": "c"}, lambda: {"x": 3})

    assert registry.collect("jobs") == [
        MetricSample("jobs", {"job": "a"}, {"x": 1}),
        MetricSample("jobs", {"job": "b"}, {"x": 2}),
        MetricSample("jobs", {"job": "c", "flow": "f"}, {"x": 3}),
    ]
    assert not reads


def test_what_was_removed_is_not_shown_and_removing_twice_is_fine() -> None:
    registry = MetricRegistry()
    remove = registry.register("g", {"task": "0"}, lambda: {"x": 1})
    registry.register("g", {"task": "1"}, lambda: {"x": 1})

    remove()
    remove()

    assert [s.tags for s in registry.collect() if s.group == "g"] == [{"task": "1"}]


def test_a_source_that_fails_is_left_out_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = MetricRegistry()

    def broken() -> dict[str, float]:
        raise RuntimeError("closed already")

    registry.register("broken", {"task": "7"}, broken)
    registry.register("whole", {}, lambda: {"x": 1})

    with caplog.at_level(logging.WARNING):
        registry.collect()
        samples = registry.collect()

    assert [s.group for s in samples] == ["whole", REGISTRY_GROUP]
    assert own_failures(samples) == 2
    assert len(caplog.records) == 1
    assert "closed already" in caplog.text


def test_a_scope_keeps_two_workers_of_one_process_apart() -> None:
    registry = MetricRegistry()
    for flow in ("a->b", "b->a"):
        registry.scoped({"flow": flow}).register("connect-worker-metrics", {}, lambda: {"x": 1})

    assert [s.tags for s in registry.collect()[:-1]] == [{"flow": "a->b"}, {"flow": "b->a"}]


def test_a_scope_leaves_groups_alone_that_name_their_clusters() -> None:
    registry = MetricRegistry()
    scope = registry.scoped({"flow": "a->b"})
    remove = scope.register("MirrorSourceConnector", {"source": "a", "target": "b"}, dict)

    assert scope.collect()[0].tags == {"source": "a", "target": "b"}
    remove()
    assert len(scope.collect()) == 1


def test_a_source_may_find_out_what_it_has_figures_of_when_it_is_read() -> None:
    registry = MetricRegistry()
    found = [MetricSample("connector-metrics", {"connector": "c"}, {"x": 1})]
    remove = registry.scoped({"flow": "a->b"}).register_samples("worker", lambda: iter(found))

    assert registry.collect()[0].tags == {"connector": "c", "flow": "a->b"}
    found.clear()
    assert len(registry.collect()) == 1
    remove()


def test_what_an_owner_registered_goes_with_it_and_nothing_else() -> None:
    registry = MetricRegistry()
    registry.register("jobs", {"job": "others"}, lambda: {"x": 0})
    owned = registry.scoped({"flow": "f"}).owned()
    removed = owned.register("jobs", {"job": "removed"}, lambda: {"x": 1})
    owned.register("jobs", {"job": "kept"}, lambda: {"x": 2})

    def jobs() -> list[str]:
        return [sample.tags["job"] for sample in registry.collect("jobs")]

    assert jobs() == ["others", "removed", "kept"]
    assert owned.collect("jobs") == registry.collect("jobs")
    removed()
    removed()
    assert jobs() == ["others", "kept"]
    owned.close()
    owned.close()
    owned.register("jobs", {"job": "late"}, lambda: {"x": 3})()
    assert jobs() == ["others"]
