"""A connector's transformations come from its config, apply in order, and say what is wrong."""

from __future__ import annotations

import pytest

from connect.data.record import SourceRecord
from connect.data.transforms.base import Transformation
from connect.data.transforms.chain import TransformChain
from connect.errors import ConfigError, TaskFailed
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import ErrorHandling, RecordErrors
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.plugins.transform_chain import make_chain

SMT = "org.apache.kafka.connect.transforms."
PLUGINS = PluginRegistry(discover=False)


def record(topic: str = "orders", value: object = b"v") -> SourceRecord:
    return SourceRecord({"p": 1}, {"o": 1}, topic, None, b"k", value)


def chain(**config: str) -> TransformChain:
    return make_chain(PLUGINS, {key.replace("__", "."): value for key, value in config.items()})


def routed(alias: str, regex: str, replacement: str) -> dict[str, str]:
    return {
        f"transforms__{alias}__type": f"{SMT}RegexRouter",
        f"transforms__{alias}__regex": regex,
        f"transforms__{alias}__replacement": replacement,
    }


def applied(chain: TransformChain, given: SourceRecord) -> SourceRecord | None:
    errors: RecordErrors[None] = RecordErrors(ErrorHandling(), ErrorMetrics(), str)
    return errors.transform(None, chain, given)


def topic_after(chain: TransformChain, topic: str) -> str | None:
    transformed = applied(chain, record(topic))
    return None if transformed is None else transformed.topic


def test_no_transforms_make_an_empty_chain() -> None:
    empty = chain()
    assert not empty
    given = record()
    assert applied(empty, given) is given


def test_stages_apply_in_the_order_of_the_aliases() -> None:
    made = chain(transforms="b, a", **routed("a", "x.(.*)", "$1"), **routed("b", "(.*)", "x.$1"))
    assert topic_after(made, "orders") == "orders"


@pytest.mark.parametrize(("negate", "kept"), [("false", "b"), ("true", "a")])
def test_a_predicate_chooses_the_records_and_negate_turns_it(negate: str, kept: str) -> None:
    made = chain(
        transforms="drop",
        predicates="is_a",
        transforms__drop__type=f"{SMT}Filter",
        transforms__drop__predicate="is_a",
        transforms__drop__negate=negate,
        predicates__is_a__type=f"{SMT}predicates.TopicNameMatches",
        predicates__is_a__pattern="a",
    )
    assert [topic for topic in "ab" if topic_after(made, topic) is not None] == [kept]


def test_a_dropped_record_skips_the_stages_after_it() -> None:
    made = chain(
        transforms="drop,fails",
        transforms__drop__type="Filter",
        transforms__fails__type=f"{SMT}ExtractField$Value",
        transforms__fails__field="id",
    )
    assert applied(made, record()) is None


def test_a_failing_stage_fails_the_task_and_names_itself() -> None:
    made = chain(
        transforms="take",
        transforms__take__type=f"{SMT}HoistField$Value",
        transforms__take__field="f",
    )
    assert applied(made, record()) == record(value={"f": b"v"})
    failing = chain(
        transforms="mask",
        transforms__mask__type=f"{SMT}MaskField$Value",
        transforms__mask__fields="f",
    )
    with pytest.raises(TaskFailed, match=r"transforms\.mask: .*TRANSFORMATION .*Only Map objects"):
        applied(failing, record())


@pytest.mark.parametrize(
    ("config", "key", "words"),
    [
        ({"transforms": "a"}, "transforms.a.type", "Missing required configuration"),
        (
            {"transforms": "a", "transforms__a__type": "Nope"},
            "transforms.a.type",
            "no transformation of this name",
        ),
        (
            {"transforms": "a", "transforms__a__type": f"{SMT}HoistField$Key"},
            "transforms.a.field",
            "Missing required",
        ),
        (
            {"transforms": "a", **routed("a", "(", "x")},
            "transforms.a.regex",
            "Invalid regex",
        ),
        (
            {"transforms": "a", **routed("a", "x", "y"), "transforms__a__predicate": "p"},
            "transforms.a.predicate",
            "no such predicate",
        ),
        (
            {"transforms": "a", **routed("a", "x", "y"), "transforms__a__negate": "true"},
            "transforms.a.negate",
            "no config 'transforms.a.predicate'",
        ),
        ({"transforms": "a,a"}, "transforms", "Duplicate"),
        ({"predicates": "p"}, "predicates.p.type", "Missing required configuration"),
    ],
)
def test_what_is_wrong_names_the_key(config: dict[str, str], key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        chain(**config)
    assert raised.value.key == key


def test_plugins_of_others_work_by_their_python_name() -> None:
    plugins = PluginRegistry(discover=False)
    plugins.register(Upper)
    name = f"{Upper.__module__}.Upper"
    made = make_chain(plugins, {"transforms": "u", "transforms.u.type": name})
    assert topic_after(made, "orders") == "ORDERS"


class Upper(Transformation):
    def apply(self, record):  # type: ignore[no-untyped-def]  # as a plugin writer may write it
        return record.with_topic(record.topic.upper())
