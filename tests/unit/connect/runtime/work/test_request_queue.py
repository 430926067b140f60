"""What others ask of the herder's thread: in the order of their time."""

from concurrent.futures import CancelledError

import pytest

from connect.errors import ConnectError
from connect.runtime.work.request_queue import RequestQueue
from tests.support.fake_clock import FakeClock


class Queue(RequestQueue):
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.wakes = 0
        super().__init__(self._woken, self.clock)

    def _woken(self) -> None:
        self.wakes += 1

    def serve(self) -> int:
        """Run what is due; how many that were."""
        count = 0
        while (request := self.take()) is not None:
            request()
            count += 1
        return count


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_requests_run_in_the_order_in_which_they_came(queue: Queue) -> None:
    done: list[int] = []
    for number in range(20):
        queue.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    assert queue.wakes == 20
    assert queue.serve() == 20
    assert done == list(range(20))


def test_results_and_errors_come_back(queue: Queue) -> None:
    result = queue.submit(lambda: 7)
    error = queue.submit(lambda: 1 // 0)
    queue.serve()
    assert result.result(0) == 7
    with pytest.raises(ZeroDivisionError):
        error.result(0)


def test_delayed_requests_wait_for_their_time_and_let_others_pass(queue: Queue) -> None:
    done: list[str] = []
    queue.submit(lambda: done.append("late"), 5.0)
    assert queue.next_due_s() == 5.0
    queue.submit(lambda: done.append("now"))
    assert queue.next_due_s() == 0.0
    queue.serve()
    assert done == ["now"]
    queue.clock.advance(4.5)
    assert queue.serve() == 0
    assert queue.next_due_s() == 0.5
    queue.clock.advance(0.5)
    queue.serve()
    assert done == ["now", "late"]
    assert queue.next_due_s() is None


def test_what_comes_after_a_time_can_be_left_for_later(queue: Queue) -> None:
    queue.submit(lambda: None)
    now = queue.clock.monotonic()
    queue.clock.advance(0.1)
    queue.submit(lambda: None)
    first = queue.take(now)
    assert first is not None
    assert queue.take(now) is None
    assert queue.take() is not None


def test_a_request_that_was_cancelled_before_its_turn_does_not_run(queue: Queue) -> None:
    done: list[int] = []
    answer = queue.submit(lambda: done.append(1))
    assert answer.cancel()
    queue.serve()
    assert done == []
    with pytest.raises(CancelledError):
        answer.result(0)


def test_a_closed_queue_refuses_what_waits_and_what_comes(queue: Queue) -> None:
    waiting, late = queue.submit(lambda: 1), queue.submit(lambda: 2, 60.0)
    cancelled = queue.submit(lambda: 3)
    cancelled.cancel()
    queue.close(ConnectError("Worker is shutting down"))
    after = queue.submit(lambda: 4)
    for answer in (waiting, late, after):
        with pytest.raises(ConnectError, match="shutting down"):
            answer.result(0)
    assert queue.serve() == 0
