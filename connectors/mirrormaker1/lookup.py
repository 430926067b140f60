"""Asks both clusters which topics there are, with how many partitions, and what is committed.

These calls block, so they run on a thread of their own, one at a time; the owner polls for the
answer.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import confluent_kafka

from connect.clients.config.properties import wire_settings
from connect.clients.errors import from_librdkafka
from connect.clients.groups.fetch_offsets import fetch_committed
from connect.clients.librdkafka.admin import Admin
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, BrokerUnavailable, ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.topics.clusters import CONTACT_TIMEOUT_S, contact
from connectors.mirrormaker1.topics import TopicList

__all__ = ["Clusters", "Lookup"]

_TIMEOUT_S = 20.0
_CREATION_S, _CREATION_TURN_S = 5.0, 0.1
"""How long a target may take to create topics before they count as missing."""

_CLOSE_S = 1.0

_HIDDEN = (
    "the source does not let us describe it (TOPIC_AUTHORIZATION_FAILED); grant Read on topic {}, "
    "or exclude it"
)
_NEEDED = "Create and Write on topic {} at the target"


@dataclass(frozen=True, slots=True)
class Clusters:
    """The answer: topics with their partition counts. `wanted`: of the source, the ones to mirror.
    `committed`: offsets of the group. `missing`: topics that the source hides, or that the target
    does not have and does not create, each with the reason."""

    wanted: Mapping[str, int]
    target: Mapping[str, int]
    committed: Mapping[TopicPartition, int]
    missing: Mapping[str, str]


class Lookup:
    """Owns two admin clients and a thread. `producer` asks for missing topics, as Java's producer
    did, so that the target creates them by its own auto.create.topics.enable and num.partitions."""

    def __init__(
        self,
        consumer: Mapping[str, str],
        producer_props: Mapping[str, str],
        producer: confluent_kafka.Producer,
        topics: TopicList,
    ) -> None:
        self._group = consumer["group.id"]
        self._unmet = {"source": consumer, "target": producer_props}
        self._wire = wire_settings(consumer)
        self._source = Admin(consumer)
        self._target = Admin(producer_props)
        self._producer = producer
        self._topics = topics
        self._threads = OneShotThreads(f"mirror-lookup-{self._group}")
        self._asked: Future[Clusters] | None = None
        self._closing = threading.Event()

    @property
    def asking(self) -> bool:
        return self._asked is not None

    def ask(self, copied: Collection[str], *, committed: bool) -> None:
        """Ask for the wanted topics and, on the target, for these too; with `committed`, for the
        group's offsets. Not while an answer is awaited."""
        self._asked = self._threads.run("clusters", lambda: self._look(copied, committed))

    def take(self) -> Clusters | None:
        """Return the answer, once; None while there is none. Raises `ConnectError`, which is not
        retriable if a cluster refuses the credentials from the beginning."""
        asked = self._asked
        if asked is None or not asked.done():
            return None
        self._asked = None
        return asked.result()

    def close(self) -> None:
        self._closing.set()
        self._threads.stop()
        self._threads.join(Deadline(_CLOSE_S))
        self._source.close()
        self._target.close()

    def _meet(self, side: str, admin: Admin) -> None:
        """Make the first contact, because librdkafka would retry forever without reporting the
        cause."""
        props = self._unmet.get(side)
        if props is None:
            return
        try:
            contact(admin, side, props, CONTACT_TIMEOUT_S)
        except BrokerUnavailable as error:
            if isinstance(error.__cause__, AuthenticationFailed):
                raise AuthenticationFailed(str(error)) from error
            raise
        del self._unmet[side]

    def _look(self, copied: Collection[str], committed: bool) -> Clusters:
        self._meet("source", self._source)
        self._meet("target", self._target)
        listed = self._source.list_topics(_TIMEOUT_S)
        wanted = {name: listed[name] for name in self._topics.choose(listed)}
        target = self._target.list_topics(_TIMEOUT_S)
        hidden = {name: _HIDDEN.format(name) for name in self._hidden(listed)}
        missing = hidden | self._create([name for name in sorted(copied) if name not in target])
        if any(name not in target and name not in missing for name in copied):
            target = self._target.list_topics(_TIMEOUT_S)
        offsets = self._committed() if committed else {}
        return Clusters(wanted, target, offsets, missing)

    def _hidden(self, listed: Collection[str]) -> set[str]:
        """Return the topics that the list names and that the user may not describe: a listing
        leaves them out."""
        return self._source.forbidden_topics(self._topics.named - set(listed), _TIMEOUT_S)

    def _create(self, names: list[str]) -> dict[str, str]:
        """Ask the target for these topics as a producer does, and wait a moment for their creation.
        Return those that are not there, with the reason."""
        deadline = Deadline(_CREATION_S)
        missing = dict.fromkeys(names, "")
        while missing:
            for name in list(missing):
                reason = self._asked_for(name)
                if reason is None:
                    del missing[name]
                else:
                    missing[name] = reason
            if deadline.expired() or self._closing.wait(_CREATION_TURN_S if missing else 0):
                break
        return missing

    def _asked_for(self, name: str) -> str | None:
        try:
            found = self._producer.list_topics(name, _TIMEOUT_S).topics[name]
        except confluent_kafka.KafkaException as error:
            return str(error.args[0].str())
        if found.error is None:
            return None
        if found.error.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            return (
                "it does not exist, and the target does not create it: create it, or set "
                "auto.create.topics.enable=true on the brokers"
            )
        return str(from_librdkafka(found.error, f"Creating topic {name}", _NEEDED.format(name)))

    def _committed(self) -> dict[TopicPartition, int]:
        found = fetch_committed(self._wire, [self._group], Deadline(_TIMEOUT_S))[self._group]
        if isinstance(found, ConnectError):
            raise found
        return {key: each.offset for key, each in found.items() if each.offset is not None}
