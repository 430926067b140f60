"""`mirror.transform`: what it may name, who may set it, and which topics it is for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect.config.definition import ConfigProblem
from connectors.mirror.config.permissions import not_permitted
from connectors.mirror.config.transforms import TransformForm, transform_form, transform_problems
from connectors.mirror.replication_policy import replication_policy

SELECT = "SELECT topic, partition, offset, upper(value) AS value FROM records"
ON_SPARK = {"mirror.engine": "spark", "source.cluster.alias": "A"}


def problems(props: Mapping[str, str]) -> list[ConfigProblem]:
    return transform_problems({**ON_SPARK, **props})


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (SELECT, TransformForm.SQL),
        ("\n with x as (select 1) select * from records", TransformForm.SQL),
        ("/etc/mirror/mask.py:mask", TransformForm.FILE),
        ("C A/mask it.py:mask", TransformForm.FILE),
        ("company.transforms:mask", TransformForm.NAME),
        ("mask-cards", TransformForm.NAME),
        ("selection", TransformForm.NAME),
    ],
)
def test_a_value_is_a_select_a_file_or_a_name(value: str, form: TransformForm) -> None:
    assert transform_form(value) is form
    assert not problems({"mirror.transform": value})


@pytest.mark.parametrize("value", ["DROP TABLE x", "/etc/mask.py", "a:b:c", "mask()"])
def test_any_other_value_is_refused(value: str) -> None:
    (problem,) = problems({"mirror.transform": value})
    assert problem.key == "mirror.transform"
    assert "it must be a SELECT" in problem.message
    assert value in problem.message


def test_it_needs_spark() -> None:
    (problem,) = problems({"mirror.transform": SELECT, "mirror.engine": "worker"})
    assert "set mirror.engine=spark" in problem.message
    assert not problems({"mirror.transform": "  ", "mirror.engine": "worker"})


def test_a_wrong_expression_of_topics_is_refused() -> None:
    (problem,) = problems({"mirror.transform": SELECT, "mirror.transform.topics": "a, (b"})
    assert problem.key == "mirror.transform.topics"


def test_rest_users_name_only_what_the_operator_named() -> None:
    own = {"mirror.transform": SELECT}
    for value in (SELECT, "os:system", "/tmp/x.py:f"):
        (problem,) = not_permitted({"mirror.transform": value}, {})
        assert problem.key == "mirror.transform"
        assert "the worker's properties" in problem.message
    assert not_permitted({"mirror.transform": "os:system"}, own)
    assert not not_permitted(own, own)
    assert not not_permitted({}, own)


def test_only_topics_that_it_names_are_transformed() -> None:
    policy = replication_policy(
        {**ON_SPARK, "mirror.transform": SELECT, "mirror.transform.topics": "orders, pay.*"}
    )
    names = ("orders", "payments", "orders2", "C.heartbeats", "heartbeats")
    assert [policy.changes_records("A", name) for name in names] == [True, True] + [False] * 3
    everything = replication_policy({**ON_SPARK, "mirror.transform": SELECT})
    assert everything.changes_records("A", "orders2")
    # The mirror's own topics stay as they are.
    assert not everything.changes_records("A", "heartbeats")
    assert not replication_policy(ON_SPARK).changes_records("A", "orders")
