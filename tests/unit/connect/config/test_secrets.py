"""Which secrets of properties are known, and in which forms texts lose them."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable
from dataclasses import fields, is_dataclass

import pytest

from connect.clients.config.properties import fetch_settings, produce_settings, wire_settings
from connect.clients.security.jaas import parse_jaas
from connect.config import secrets
from connect.config.client_keys import ADMIN_CONFIG_DEF, CONSUMER_CONFIG_DEF, PRODUCER_CONFIG_DEF
from connect.config.connector import CONNECTOR_KEYS, SINK_CONNECTOR_KEYS, SOURCE_CONNECTOR_KEYS
from connect.config.definition import ConfigDef, ConfigKey
from connect.config.providers import ConfigProviders
from connect.config.secrets import remember_properties, remember_secret, without_secrets
from connect.config.types import ConfigType, parse_value
from connect.config.worker import WorkerConfig
from connect.config.worker_keys import STANDALONE_CONFIG_DEF, WORKER_CONFIG_DEF
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.heartbeat import HeartbeatConfig
from connectors.mirror.config.source import SOURCE_CONFIG_DEF, SourceConfig
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import plan_flows
from tests.support.security.canaries import Canaries, jaas_quoted

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "repr": repr,
    "repr of bytes": lambda text: repr(text.encode()),
    "JSON": json.dumps,
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "form": urllib.parse.quote_plus,
    "login module": jaas_quoted,
}
DEFINITIONS = {
    "worker": WORKER_CONFIG_DEF,
    "standalone": STANDALONE_CONFIG_DEF,
    "admin": ADMIN_CONFIG_DEF,
    "consumer": CONSUMER_CONFIG_DEF,
    "producer": PRODUCER_CONFIG_DEF,
    "source connector": ConfigDef([*CONNECTOR_KEYS, *SOURCE_CONNECTOR_KEYS]),
    "sink connector": ConfigDef([*CONNECTOR_KEYS, *SINK_CONNECTOR_KEYS]),
    "mirror source": SOURCE_CONFIG_DEF,
    "mirror checkpoint": CHECKPOINT_CONFIG_DEF,
}


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.mark.parametrize("form", FORMS)
def test_a_password_of_a_login_module_is_hidden_in_every_form(
    canaries: Canaries, form: str
) -> None:
    secret = canaries.awkward("JAAS")
    jaas = f'x.PlainLoginModule required username="u" password="{jaas_quoted(secret)}";'
    assert parse_jaas(jaas).options["password"] == secret
    remember_properties({"sasl.jaas.config": jaas})
    text = f"before {FORMS[form](secret)} after"
    assert canaries.leaked("", without_secrets(text)) == []
    assert without_secrets(text).startswith("before ")


def test_the_file_of_a_login_module_is_no_property_and_yet_known(canaries: Canaries) -> None:
    secret = canaries.new("JAAS file")
    parse_jaas(f"x.PlainLoginModule required username=u password='{secret}';")
    assert without_secrets(f"is {secret}") == "is [hidden]"


def test_a_password_of_a_url_is_hidden_and_the_rest_stays(canaries: Canaries) -> None:
    secret = canaries.new("URL", "/@%")
    quoted = urllib.parse.quote(secret, safe="")
    url = f"postgresql+psycopg://mirror:{quoted}@db.example/history?sslmode=require"
    remember_properties({"some.url": url})
    assert without_secrets(f"{url} and {secret}") == (
        "postgresql+psycopg://mirror:[hidden]@db.example/history?sslmode=require and [hidden]"
    )


def test_a_url_without_a_password_stays() -> None:
    remember_secret("sqlite:////var/lib/mirror/history.db")
    text = "opened sqlite:////var/lib/mirror/history.db"
    assert without_secrets(text) == text


def test_a_line_of_a_private_key_is_hidden() -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    remember_secret(f"-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----\n")
    assert without_secrets(f"bad base64 {line}") == "bad base64 [hidden]"


def test_a_value_of_a_provider_is_known_by_its_name_there(
    canaries: Canaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = canaries.new("variable")
    monkeypatch.setenv("DB_PASSWORD", secret)
    props = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    resolved = ConfigProviders.from_properties(props).resolve({"note": "is ${env:DB_PASSWORD}"})
    assert resolved == {"note": f"is {secret}"}
    assert without_secrets(secret) == "[hidden]"


def test_secrets_of_any_number_and_size_are_kept_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each form of each password that anybody had validated stayed, and slowed every log line."""
    monkeypatch.setattr(secrets, "_known", {})
    monkeypatch.setattr(secrets, "_search", secrets._NOTHING)
    for number in range(20):
        remember_properties({"x.password": f"{number:02}" + "x" * 250_000})
    remember_properties({"x.password": "y" * 8_000_000})
    assert sum(map(len, secrets._known)) <= 4 << 20
    assert without_secrets("19" + "x" * 250_000) == "[hidden]"


@pytest.mark.parametrize("length", [10, 255, 256, 257, 5000])
def test_a_secret_of_any_length_is_hidden_whole_though_part_of_it_is_one_too(length: int) -> None:
    whole = "".join(f"{number}," for number in range(length))[:length]
    remember_properties({"a.password": whole[:6], "b.password": whole, "c.password": whole[-6:]})
    assert without_secrets(f"once {whole} twice {whole}.") == "once [hidden] twice [hidden]."


def test_whatever_is_parsed_as_a_password_is_known(canaries: Canaries) -> None:
    secret = canaries.new("pin")
    parse_value("pin", secret, ConfigType.PASSWORD)
    assert without_secrets(f"the pin {secret}") == "the pin [hidden]"


def passwords(definition: ConfigDef, canaries: Canaries) -> dict[str, str]:
    """A canary for each key of type PASSWORD."""
    return {
        key.name: canaries.new(key.name) for key in definition if key.type is ConfigType.PASSWORD
    }


@pytest.mark.parametrize("name", DEFINITIONS)
def test_no_definition_prints_its_passwords(canaries: Canaries, name: str) -> None:
    definition = DEFINITIONS[name]
    props = passwords(definition, canaries)
    told = repr(definition.validate(props))
    optional = ConfigDef([key for key in definition if not key.required])
    told += repr(optional.parse(props))
    assert canaries.leaked(name, told) == []
    assert props or name in ("worker", "source connector", "sink connector")


def test_no_parsed_config_prints_its_secrets(canaries: Canaries) -> None:
    """Not in its repr, which tracebacks of test tools and debuggers show, either."""
    login = f'x.PlainLoginModule required username="u" password="{canaries.new("JAAS")}";'
    client = {
        **canaries.of_clients(),
        "bootstrap.servers": "127.0.0.1:9",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login,
    }
    mm2 = MirrorMakerConfig.from_properties(
        {
            "clusters": "A,B",
            **{f"{alias}.{key}": value for alias in "AB" for key, value in client.items()},
            "A->B.enabled": "true",
            "mirror.history.url": f"postgresql+psycopg://u:{canaries.new('URL')}@127.0.0.1:1/h",
        }
    )
    plans = plan_flows(mm2)
    worker = mm2.worker_config("A", "B")
    parsed: list[object] = [
        wire_settings(client),
        fetch_settings(client),
        produce_settings(client),
        mm2,
        WorkerConfig.from_properties(worker),
        *plans,
        *(
            SourceConfig.from_properties(props)
            for plan in plans
            for name, props in plan.connectors.items()
            if name == "MirrorSourceConnector"
        ),
        HeartbeatConfig.from_properties(
            {**plans[0].connectors["MirrorHeartbeatConnector"], "name": "h"}
        ),
        ConfigKey("pin", ConfigType.PASSWORD).parse({"pin": canaries.new("pin")}),
    ]
    found = [
        leak
        for each in parsed
        for leak in canaries.leaked(type(each).__name__, f"{each!r} {each} {_fields(each)}")
    ]
    assert found == []


def _fields(each: object) -> str:
    """The reprs of a dataclass's own fields, as far as its repr shows them."""
    if not is_dataclass(each):
        return ""
    return "".join(repr(getattr(each, field.name)) for field in fields(each) if field.repr)
