"""What a group of workers answers to a connector that wants exactly-once. The texts are Java's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect.plugin import Connector
from connect.runtime.distributed.preflight import exactly_once_problems
from connectors.files.source import FileStreamSourceConnector
from tests.support.workers.plugins import LaneConnector

REQUIRED = {"exactly.once.support": " REQUIRED "}
DISABLED = "This worker does not have exactly-once source support enabled."
SILENT = "The connector does not implement the API required for preflight validation"
UNSUPPORTED = (
    "The connector does not support exactly-once semantics with the provided configuration."
)


class Boundless(LaneConnector):
    @classmethod
    def can_define_transaction_boundaries(cls, config: Mapping[str, str]) -> bool:
        return True


class Broken(LaneConnector):
    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool | None:
        raise ValueError(" who knows ")

    @classmethod
    def can_define_transaction_boundaries(cls, config: Mapping[str, str]) -> bool:
        raise ValueError


def told(
    connector: type[Connector], config: Mapping[str, str], *, enabled: bool = True
) -> list[tuple[str, str]]:
    found = exactly_once_problems(connector, config, enabled=enabled)
    return [(problem.key, problem.message) for problem in found]


@pytest.mark.parametrize("config", [{}, {"exactly.once.support": "requested"}])
def test_nothing_is_checked_unless_it_is_required(config: dict[str, str]) -> None:
    assert told(LaneConnector, config, enabled=False) == []


def test_the_worker_and_the_connector_must_support_it() -> None:
    key = "exactly.once.support"
    file = {**REQUIRED, "file": "f", "topic": "t"}
    assert told(FileStreamSourceConnector, file) == []
    assert told(FileStreamSourceConnector, file, enabled=False) == [(key, DISABLED)]
    stdin = {**REQUIRED, "topic": "t"}
    assert told(FileStreamSourceConnector, stdin) == [(key, UNSUPPORTED)]
    ((found, text),) = told(LaneConnector, REQUIRED)
    assert (found, text.startswith(SILENT)) == (key, True)


def test_only_some_connectors_say_where_transactions_end() -> None:
    config = {"transaction.boundary": "Connector"}
    assert told(Boundless, config) == []
    ((key, text),) = told(LaneConnector, config)
    assert key == "transaction.boundary"
    assert text.startswith(
        "The connector does not support connector-defined transaction boundaries"
    )


def test_a_connector_that_cannot_tell_is_refused_with_its_reason() -> None:
    failed = "An unexpected error occurred during validation"
    assert told(Broken, {**REQUIRED, "transaction.boundary": "connector"}) == [
        ("exactly.once.support", f"{failed}: who knows"),
        ("transaction.boundary", f"{failed}; please see the worker logs for more details."),
    ]
