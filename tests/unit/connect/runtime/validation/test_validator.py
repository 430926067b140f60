"""Validation of configs, against the answers of a Java worker (golden/connect_validation), and the
rules that are ours."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from api.rest.models import ConfigInfos as ConfigInfosModel
from connect.config.definition import ConfigDef, ConfigProblem
from connect.data.converters.base import Converter
from connect.data.converters.byte_array import ByteArrayConverter
from connect.data.predicates.record_is_tombstone import RecordIsTombstone
from connect.data.transforms.filter import Filter
from connect.plugin import SinkConnector, SinkTask
from connect.runtime.errors import BadRequest
from connect.runtime.plugins.override_policy import (
    AllConnectorClientConfigOverridePolicy,
    AllowlistConnectorClientConfigOverridePolicy,
    ConnectorClientConfigOverridePolicy,
    NoneConnectorClientConfigOverridePolicy,
    PrincipalConnectorClientConfigOverridePolicy,
)
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.rest_entities import ConfigInfos
from connect.runtime.validation.validator import ConfigValidator, Preflight, invalid_config
from connectors.mirror.config.loss_policies import LOSS_KEYS
from connectors.mirror.plugins import register
from tests.support.workers.plugins import LaneConnector

GOLDEN = Path(__file__).parents[4] / "golden" / "connect_validation" / "answers.json"
CASES: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())

# Keys that only our mirror has.
OURS = {
    "mirror.engine",
    "mirror.spark.batch.ms",
    *(key.name for key in LOSS_KEYS),
    "mirror.copy.buffer.bytes",
    "mirror.copy.merge.batch.bytes",
    "mirror.transform",
    "mirror.transform.topics",
    "mirror.transforms.key.converter",
    "mirror.transforms.value.converter",
    "mirror.transforms.header.converter",
    "mirror.assignment",
    "mirror.assignment.interval.seconds",
    "mirror.rate.bytes",
    "mirror.rate.records",
    "mirror.rate.topics",
    "mirror.offset.map.enabled",
    "mirror.provenance.enabled",
    "replication.policy.prefix",
    "replication.policy.prefix.remove",
    "replication.policy.suffix",
    "replication.policy.suffix.remove",
    "replication.policy.mapping.file",
    "mirror.spark.idle.timeout.ms",
    "mirror.spark.start.max.delay.ms",
    "offset-map.topic.replication.factor",
}
# Errors that say the same in other words.
OTHER_WORDS = {"exactly.once.support"}


class Pipe(SinkConnector):
    """A sink whose keys are those that all sinks have."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def start(self, config: Mapping[str, str]) -> None: ...

    def task_class(self) -> type[SinkTask]:
        return SinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []

    def stop(self) -> None: ...


class Expired(Filter):
    def __init__(self) -> None:
        raise ValueError("no licence")


class ExpiredTest(RecordIsTombstone):
    def __init__(self) -> None:
        raise ValueError("no licence")


class Unfinished(Converter):
    """Has none of a converter's methods."""


class Needy(ByteArrayConverter):
    def __init__(self, size: int) -> None:
        self.size = size


class Raising(ByteArrayConverter):
    def __init__(self) -> None:
        raise ValueError("no licence")


def validator(
    policy: ConnectorClientConfigOverridePolicy | None = None,
    *,
    preflight: Preflight | None = None,
    exactly_once: bool = False,
    more: Sequence[type] = (),
) -> ConfigValidator:
    """`more`: plugins of people's own."""
    plugins = PluginRegistry(discover=False)
    register(plugins)
    plugins.register(LaneConnector)
    for plugin in (Pipe, *more):
        plugins.register(plugin)
    values = {"${env:N}": "3", "${env:SECRET}": "top-secret"}
    return ConfigValidator(
        plugins,
        lambda config: {key: values.get(value, value) for key, value in config.items()},
        policy or AllConnectorClientConfigOverridePolicy(),
        preflight=preflight,
        exactly_once=exactly_once,
    )


def errors(infos: ConfigInfos) -> dict[str, Sequence[str]]:
    return {info.value.name: info.value.errors for info in infos.configs if info.value.errors}


def lane(**config: str | None) -> dict[str, str | None]:
    dashed = {key.replace("_", "."): value for key, value in config.items()}
    return {"connector.class": "Lane", "name": "l", "topic": "t", **dashed}


def pipe(**config: str | None) -> dict[str, str | None]:
    dashed = {key.replace("_", "."): value for key, value in config.items()}
    return {"connector.class": "Pipe", "name": "p", **dashed}


def shown(config: Mapping[str, str | None]) -> dict[str, Any]:
    """Our answer as REST would print it, documentation left out."""
    model = ConfigInfosModel.of(validator().validate(config))
    answer: dict[str, Any] = json.loads(model.model_dump_json())
    for info in answer["configs"]:
        if info["definition"] is not None:
            del info["definition"]["documentation"]
    return answer


def by_name(answer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {info["value"]["name"]: info for info in answer["configs"]}
    for name in OTHER_WORDS & set(found):
        value = found[name]["value"]
        value["errors"] = ["..." for _ in value["errors"]]
    return found


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["status"] == 200])
def test_as_java_answers(name: str) -> None:
    case = CASES[name]
    java, ours = case["answer"], shown(case["config"])
    assert ours["error_count"] == java["error_count"]
    assert set(ours["groups"]) == set(java["groups"])
    assert ours["name"] == java["name"]
    ours_by_name = by_name(ours)
    for key, info in by_name(java).items():
        assert ours_by_name[key] == info


@pytest.mark.parametrize("name", ["source", "heartbeat"])
def test_all_keys_and_the_order_of_those_that_all_sources_have(name: str) -> None:
    case = CASES[name]
    java, ours = by_name(case["answer"]), by_name(shown(case["config"]))
    assert set(ours) - OURS == set(java)
    assert list(ours)[:24] == list(java)[:24]


def test_without_a_class_nothing_can_be_validated_and_secrets_are_not_told() -> None:
    with pytest.raises(BadRequest) as caught:
        validator().validate({"name": "x", "ssl.key.password": "hunter2", "nothing": None})
    assert str(caught.value) == (
        "Connector config {name=x, ssl.key.password=[hidden], nothing=None} contains no connector"
        " type"
    )


def test_an_unknown_class_is_told_with_what_there_is() -> None:
    with pytest.raises(
        BadRequest, match="which name matches Nope, available connectors are: "
    ) as e:
        validator().validate({"connector.class": "Nope"})
    assert "org.apache.kafka.connect.mirror.MirrorSourceConnector" in str(e.value)


def test_a_range_of_versions_that_is_none() -> None:
    with pytest.raises(BadRequest, match=r"Unbounded range: \[\[1"):
        validator().validate(lane(connector_plugin_version="[[1"))


def test_values_are_validated_as_providers_resolve_them() -> None:
    assert errors(validator().validate(lane(tasks_max="${env:N}"))) == {}


def test_no_answer_tells_what_a_reference_stands_for() -> None:
    """Else whoever may validate could read every file and variable that a provider may read."""
    config = lane(topic="${env:SECRET}", tasks_max="${env:SECRET}", count="${env:SECRET}")
    infos = validator().validate(config)
    assert "top-secret" not in str(infos)
    values = {info.value.name: info.value.value for info in infos.configs}
    assert values["topic"] == "${env:SECRET}"
    told = "Invalid value ${env:SECRET} for configuration tasks.max: Not a number of type INT"
    assert told in errors(infos)["tasks.max"]
    for aliases in ("transforms", "topic_creation_groups"):
        assert "top-secret" not in str(validator().validate(lane(**{aliases: "${env:SECRET}"})))
    with pytest.raises(BadRequest) as caught:
        validator().validate({"connector.class": "${env:SECRET}"})
    assert "top-secret" not in str(caught.value)
    assert "name matches ${env:SECRET}" in str(caught.value)


def test_all_errors_are_in_the_refusal() -> None:
    infos = validator().validate(lane(count="many", tasks_max="0"))
    assert str(invalid_config(infos)) == (
        "Connector configuration is invalid and contains the following 2 error(s):\n"
        "Invalid value 0 for configuration tasks.max: Value must be at least 1\n"
        "Invalid value many for configuration count: Not a number of type INT\n"
        "You can also find the above list of errors at the endpoint"
        " `/connector-plugins/{connectorType}/config/validate`"
    )
    assert invalid_config(validator().validate(lane())) is None


def test_a_predicate_that_is_not_declared_is_found_before_a_task_fails_for_it() -> None:
    config = lane(transforms="f", transforms_f_type="Filter", transforms_f_predicate="zz")
    assert list(errors(validator().validate(config))) == ["transforms.f.predicate"]


def transformed(**extra: str) -> dict[str, str]:
    keys = {"transforms": "f", "transforms.f.type": "DropHeaders", "transforms.f.headers": "h"}
    return {**CASES["source"]["config"], **keys, **extra}


def test_a_mirror_takes_transformations_and_their_keys_are_checked() -> None:
    plain = errors(validator().validate(CASES["source"]["config"]))
    assert errors(validator().validate(transformed())) == plain
    answer = by_name(shown(transformed()))
    assert "transforms.f.headers" in answer
    missing = transformed()
    del missing["transforms.f.headers"]
    assert "transforms.f.headers" in errors(validator().validate(missing))


def test_both_engines_take_transformations_and_only_spark_takes_its_own() -> None:
    plain = errors(validator().validate(CASES["source"]["config"]))
    assert errors(validator().validate(transformed(**{"mirror.engine": "spark"}))) == plain
    config = {**CASES["source"]["config"], "mirror.transform": "SELECT * FROM records"}
    (message, *_) = errors(validator().validate(config))["mirror.transform"]
    assert "set mirror.engine=spark" in message


def test_a_mirror_copies_a_topic_to_one_topic_only() -> None:
    found = errors(validator().validate(transformed(**{"transforms.f.type": "TimestampRouter"})))
    (message, *_) = found["transforms.f.type"]
    assert "differ from record to record" in message


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (AllConnectorClientConfigOverridePolicy(), {"acks", "sasl.jaas.config"}),
        (NoneConnectorClientConfigOverridePolicy(), set()),
        (PrincipalConnectorClientConfigOverridePolicy(), {"sasl.jaas.config"}),
        (AllowlistConnectorClientConfigOverridePolicy(), {"acks"}),
    ],
)
def test_the_workers_policy_says_what_may_be_overridden(
    policy: ConnectorClientConfigOverridePolicy, allowed: set[str]
) -> None:
    policy.configure({"connector.client.config.override.allowlist": "acks, other"})
    config = lane(producer_override_acks="all", producer_override_sasl_jaas_config="x")
    found = errors(validator(policy).validate(config))
    refused = {"acks", "sasl.jaas.config"} - allowed
    assert set(found) == {f"producer.override.{name}" for name in refused}


def test_a_refusal_names_the_policy_and_the_property() -> None:
    policy = PrincipalConnectorClientConfigOverridePolicy()
    found = errors(validator(policy).validate(lane(producer_override_acks="all")))
    assert found["producer.override.acks"] == (
        "The 'Principal' policy does not allow 'acks' to be overridden in the connector"
        " configuration.",
    )


@pytest.mark.parametrize(
    ("config", "exactly_once", "clients"),
    [
        (lane(), False, {"producer"}),
        (lane(topic_creation_groups="g"), False, {"producer", "admin"}),
        (lane(offsets_storage_topic="o"), False, {"producer", "consumer", "admin"}),
        (lane(), True, {"producer", "consumer", "admin"}),
        (pipe(topics="t"), False, {"consumer"}),
        (
            pipe(topics="t", errors_deadletterqueue_topic_name="d"),
            False,
            {"consumer", "producer", "admin"},
        ),
    ],
)
def test_overrides_are_looked_at_where_a_connector_has_such_a_client(
    config: dict[str, str | None], exactly_once: bool, clients: set[str]
) -> None:
    for client in ("producer", "consumer", "admin"):
        config = {**config, f"{client}.override.client.id": "x"}
    infos = validator(exactly_once=exactly_once).validate(config)
    names = {info.value.name for info in infos.configs if ".override." in info.value.name}
    assert names == {f"{client}.override.client.id" for client in clients}


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"topics": "a,b"}, {}),
        ({"topics.regex": "a.*"}, {}),
        (
            {},
            {
                "topics": ("Must configure one of topics or topics.regex",),
                "topics.regex": ("Must configure one of topics or topics.regex",),
            },
        ),
        (
            {"topics": "a,b", "errors.deadletterqueue.topic.name": "a"},
            {
                "topics": (
                    "The DLQ topic 'a' may not be included in the list of topics ('topics=[a, b]')"
                    " consumed by the connector",
                )
            },
        ),
        (
            {"topics.regex": "a.*", "errors.deadletterqueue.topic.name": "ab"},
            {
                "topics.regex": (
                    "The DLQ topic 'ab' may not be matched by the regex for the topics"
                    " ('topics.regex=a.*') consumed by the connector",
                )
            },
        ),
    ],
)
def test_what_sinks_say_of_their_topics(
    config: dict[str, str], found: dict[str, Sequence[str]]
) -> None:
    assert errors(validator().validate({**pipe(), **config})) == found


@pytest.mark.parametrize("key", ["key.converter", "value.converter", "header.converter"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Unfinished", "This class is abstract and cannot be created"),
        ("Needy", "Could not instantiate class: .*missing 1 required positional argument"),
        ("Raising", "Could not instantiate class: no licence"),
    ],
)
def test_a_converter_that_cannot_be_made_is_refused_before_a_task_fails_for_it(
    key: str, name: str, reason: str
) -> None:
    broken = validator(more=(Unfinished, Needy, Raising))
    found = errors(broken.validate({**pipe(topics="t"), key: name}))
    ((text,),) = found.values()
    assert list(found) == [key]
    assert re.search(f"^Invalid value .*{name} for configuration {key}: {reason}", text), text


@pytest.mark.parametrize("section", ["transforms", "predicates"])
def test_a_transformation_or_predicate_that_cannot_be_made_is_an_error_of_its_key(
    section: str,
) -> None:
    name = "Expired" if section == "transforms" else "ExpiredTest"
    own = {section: "x", f"{section}.x.type": name}
    expired = validator(more=(Expired, ExpiredTest))
    found = errors(expired.validate({**pipe(topics="t"), **own}))
    ((text,),) = found.values()
    assert list(found) == [f"{section}.x.type"]
    assert text.endswith("Could not instantiate class: no licence"), text


def test_a_herder_may_have_more_rules_for_the_common_keys() -> None:
    def no_more_than_one(connector: type, config: Mapping[str, str]) -> list[ConfigProblem]:
        return [ConfigProblem("tasks.max", f"{connector.__name__} may have one")]

    found = errors(validator(preflight=no_more_than_one).validate(lane()))
    assert found == {"tasks.max": ("LaneConnector may have one",)}
