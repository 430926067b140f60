"""No thread is left to make kafka-python's classes: two that did broke them for all."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.consumer import OffsetFetchResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse
from kafka.protocol.sasl import SaslAuthenticateResponse

import connect.clients.wire.connection  # noqa: F401 - makes them
from connect.clients.wire.message_classes import response_classes

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
