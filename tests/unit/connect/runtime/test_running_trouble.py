"""What is RUNNING and cannot do its work for now says so in its status, whatever is around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connect.clock import Deadline
from connect.config.definition import ConfigDef
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.plugin import Connector, SourceTask, TransferTask
from connect.runtime.states import InstanceId, State, Status, StatusBook
from connect.runtime.worker_connector import WorkerConnector
from tests.support.workers.plugins import RecordLaneTask

NAME = InstanceId("c")
TIMEOUT_S = 10.0


class TellingConnector(Connector):
    """Says something while it starts."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def start(self, config: Mapping[str, str]) -> None:
        self.context.report_trouble("the source cannot be reached")

    def task_class(self) -> type[SourceTask] | type[TransferTask]:
        return RecordLaneTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        return None

    def stop(self) -> None:
        pass


def started() -> tuple[WorkerConnector, TellingConnector, Callable[[], Status | None]]:
    book, connector = StatusBook("w"), TellingConnector()
    host = WorkerConnector("c", connector, MetricRegistry(), book, lambda: None)
    host.start({}).result(TIMEOUT_S)
    return host, connector, lambda: book.get(NAME)


def test_a_connector_in_trouble_stays_running_with_a_trace() -> None:
    host, connector, status = started()
    shown = status()
    assert shown is not None
    assert (shown.state, shown.trace) == (State.RUNNING, "the source cannot be reached")
    connector.context.report_trouble(None)
    shown = status()
    assert shown is not None
    assert (shown.state, shown.trace) == (State.RUNNING, None)
    host.request_stop()
    assert host.join(Deadline(TIMEOUT_S))


def test_the_trace_of_a_failure_is_not_covered_up() -> None:
    host, connector, status = started()
    connector.context.raise_error(ConnectError("a config that can never work"))
    connector.context.report_trouble("the source cannot be reached")
    shown = status()
    assert shown is not None
    assert shown.state is State.FAILED
    assert "can never work" in str(shown.trace)
    host.request_stop()
    assert host.join(Deadline(TIMEOUT_S))
