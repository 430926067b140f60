"""The librdkafka client of `Admin` and `ConsumerGroups`: its life, and the wait for its answers."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, ClusterMetadata

from connect.clients.errors import from_librdkafka, translated
from connect.clients.librdkafka import factory
from connect.clients.librdkafka.login_refusals import LoginRefusals
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, ConnectError, DeadlineExceeded, RetriableError

__all__ = ["AdminConnection"]

# librdkafka has a timeout of its own; this one applies only if it never answers.
_ANSWER_GRACE_S = 5.0
# The interval of looking for refusals while an answer is waited for.
_LOOK_S = 0.2
# The same for metadata, whose call cannot be left. Each further call waits twice as long.
_PATIENCE_S = 1.0


class AdminConnection:
    """An admin client made from Java client properties. Its owner calls `close`."""

    def __init__(self, props: Mapping[str, str], *, needs_login: bool = False) -> None:
        """Create the client. `needs_login`: calls raise `AuthenticationFailed` as soon as brokers
        refuse the login. Otherwise they go on trying until their timeout.
        """
        self._refusals = LoginRefusals(props) if needs_login else None
        self._log = factory.LibrdkafkaLog(props.get("client.id", "admin"))
        overrides = {} if self._refusals is None else self._refusals.librdkafka_config()
        self._client: AdminClient | None = factory.admin_client(
            props, overrides=overrides, log=self._log
        )

    def close(self) -> None:
        """Close the connections. Later calls raise `ConnectError`."""
        self._log.closing = True
        self._client = None

    def _open(self) -> AdminClient:
        client = self._client
        if client is None:
            raise ConnectError("The admin client is closed")
        return client

    def _answer(
        self,
        what: str,
        future: concurrent.futures.Future[Any],
        timeout: float,
        needs: str | None = None,
    ) -> Any:
        try:
            return self._result(future, what, Deadline(timeout + _ANSWER_GRACE_S))
        except confluent_kafka.KafkaException as error:
            raise from_librdkafka(error, what, needs) from error
        except concurrent.futures.TimeoutError as error:
            raise DeadlineExceeded(f"{what} got no response within {timeout:g} s") from error
        finally:
            # librdkafka delivers log lines only to a poll; without one they pile up.
            if self._client is not None:
                self._client.poll(0)

    def _metadata(self, what: str, timeout: float) -> ClusterMetadata:
        """Return the metadata of all topics. Raises as `_answer` does."""
        refusals, deadline = self._refusals, Deadline(timeout)
        patience_s = timeout if refusals is None else _PATIENCE_S
        while True:
            client = self._open()
            try:
                with translated(what):
                    found = client.list_topics(timeout=min(patience_s, deadline.remaining()))
            except RetriableError:
                if refusals is None or deadline.expired():
                    raise
            else:
                if refusals is not None:
                    refusals.answered()
                return found
            finally:
                client.poll(0)
            self._need_login(refusals, what)
            patience_s *= 2

    def _need_login(self, refusals: LoginRefusals, what: str) -> None:
        refusal = refusals.ask()
        if refusal is not None:
            raise AuthenticationFailed(f"{what} failed: {refusal}") from refusal

    def _result(self, future: concurrent.futures.Future[Any], what: str, deadline: Deadline) -> Any:
        """Wait for the answer. Raises `AuthenticationFailed` if brokers refuse the login."""
        refusals = self._refusals
        if refusals is None:
            return future.result(deadline.remaining())
        while True:
            try:
                answer = future.result(min(_LOOK_S, deadline.remaining()))
            except concurrent.futures.TimeoutError:
                if deadline.expired():
                    raise
            else:
                refusals.answered()
                return answer
            if self._client is not None:
                self._client.poll(0)
            self._need_login(refusals, what)
