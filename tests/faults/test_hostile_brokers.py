"""Every kind of nonsense in answer to every kind of request that the copier makes."""

from __future__ import annotations

import pytest

from tests.support.copier.hostile_broker import (
    API_VERSIONS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
)
from tests.support.copier.hostile_copy import ANY_ANSWER, Broken, survives


@pytest.mark.parametrize("name", ANY_ANSWER)
@pytest.mark.parametrize("api", [API_VERSIONS, METADATA, FETCH, LIST_OFFSETS])
def test_a_source_whose_answers_are_nonsense(api: int, name: str) -> None:
    survives(source=Broken(api, ANY_ANSWER[name]), position=None if api == LIST_OFFSETS else 0)


@pytest.mark.parametrize(
    ("api", "name"),
    [
        (api, name)
        for api in (API_VERSIONS, METADATA, INIT_PRODUCER_ID, PRODUCE)
        for name in ANY_ANSWER
        # No error, and producer id 0: that is no nonsense.
        if (api, name) != (INIT_PRODUCER_ID, "zeros")
    ],
)
def test_a_target_whose_answers_are_nonsense(api: int, name: str) -> None:
    survives(target=Broken(api, ANY_ANSWER[name]))
