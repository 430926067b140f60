"""Threads that use kafka-python's classes at the same time do not break them for the process."""

from __future__ import annotations

import gc
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.consumer import OffsetFetchResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse
from kafka.protocol.sasl import SaslAuthenticateResponse
from kafka.protocol.schemas.fields import struct as struct_fields
from kafka.protocol.schemas.fields.codegen import CodegenContext

import connect.clients.wire.connection  # noqa: F401 - makes them
from connect.clients.wire import message_classes
from connect.clients.wire.message_classes import decode_body, response_classes

USED = [
    ApiVersionsResponse,
    InitProducerIdResponse,
    MetadataResponse,
    OffsetFetchResponse,
    SaslAuthenticateResponse,
]


@pytest.mark.parametrize("response", USED, ids=lambda response: response.name)
def test_every_version_is_there_and_registered(response: Any) -> None:
    assert response in set(response_classes())
    versions = response._VERSIONS
    highest = response.max_version
    assert set(range(highest + 1)) <= set(versions)
    gc.collect()
    registered = ResponseClassRegistry._response_class_registry[response.API_KEY]
    for version in range(highest + 1):
        assert registered[version] is versions[version]


class _Overlap:
    """Stands where kafka-python begins to compile a decoder. The second thread there is kept until
    the first one has finished."""

    def __init__(self) -> None:
        self._compiling = itertools.count()
        self._two_compile, self.first_is_done = threading.Event(), threading.Event()

    def begin(self) -> CodegenContext:
        if next(self._compiling) == 0:
            # With the lock nobody comes.
            self._two_compile.wait(0.2)
        else:
            self._two_compile.set()
            assert self.first_is_done.wait(30)
        return CodegenContext()


@pytest.mark.parametrize("response", USED, ids=lambda response: response.name)
def test_two_threads_may_decode_the_first_response_of_a_version_together(
    response: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlap, version = _Overlap(), response.max_version
    sent = response[version]()
    body = sent.encode()
    # As in a new process.
    monkeypatch.setattr(message_classes, "_decoded", set())
    monkeypatch.setattr(response._struct, "_compiled_encoders", {})
    monkeypatch.setattr(struct_fields, "CodegenContext", overlap.begin)

    def decoded() -> Any:
        try:
            return decode_body(response[version], version, body)
        finally:
            overlap.first_is_done.set()

    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(decoded) for _ in range(2)]
        assert [each.result(30) for each in asked] == [sent, sent]
