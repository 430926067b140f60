"""The golden files are what the pinned jars answer."""

from __future__ import annotations

import json

import pytest

from deploy.brokers import KafkaRuntime
from tests.golden.answers import GOLDEN
from tests.support.records.connect_data import plain_numbers


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", GOLDEN)
def test_java_answers_what_the_golden_files_say(name: str, kafka: KafkaRuntime) -> None:
    answers = GOLDEN[name](kafka)
    assert answers
    for path, text in answers.items():
        asked, kept = json.loads(text), json.loads(path.read_text())
        assert plain_numbers(asked) == plain_numbers(kept), f"make golden GOLDEN={name}"
