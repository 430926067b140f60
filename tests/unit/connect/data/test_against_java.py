"""Transformations, predicates, converters and the text of values do what Kafka Connect 4.3.1 does.

`tests/golden/connect_data` holds the cases, the Java program that ran them, and its results. Where
ours differ on purpose, `tests.support.records.connect_data` says so.
"""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from connect.data.converters.base import Converter
from connect.data.transforms.base import Predicate, Transformation
from connect.runtime.plugins.builtin import builtin_plugins
from tests.golden.connect_data.cases import cases_text
from tests.support.records.connect_data import CASES, EXPECTED, agrees, run_case

_BY_SUBJECT: dict[str, list[int]] = defaultdict(list)
for _number, _case in enumerate(CASES):
    _BY_SUBJECT[f"{_case['kind']} {_case.get('class', 'values')}"].append(_number)


@pytest.mark.parametrize("subject", list(_BY_SUBJECT))
def test_every_case_ends_as_in_java(subject: str) -> None:
    differing = []
    for number in _BY_SUBJECT[subject]:
        ours = run_case(CASES[number])
        if not agrees(CASES[number], ours, EXPECTED[number]):
            differing.append((CASES[number], ours, EXPECTED[number]))
    assert differing == []


def test_every_plugin_that_comes_with_kafka_connect_has_cases() -> None:
    tried = {case["class"] for case in CASES if "class" in case}
    plugins = {
        name.removeprefix("org.apache.kafka.connect.")
        for plugin, name in builtin_plugins()
        if issubclass(plugin, Converter | Transformation | Predicate)
    }
    assert plugins == tried


def test_the_cases_are_those_that_the_golden_files_are_made_of() -> None:
    assert json.loads(cases_text()) == CASES, "make golden GOLDEN=connect_data"


def test_most_cases_are_more_than_errors() -> None:
    failed = sum("error" in result for result in EXPECTED)
    assert len(EXPECTED) == len(CASES)
    assert failed < len(CASES) / 2
