"""What a declared key accepts, in the words of Kafka 4.3.1 (observed by running its ConfigDef)."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.config.definition import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    SecretStr,
)
from connect.config.types import ConfigScalar, format_value, parse_value
from connect.config.validators import (
    NonEmptyString,
    OneOf,
    PrintableName,
    Range,
    UniqueAliases,
    ValidList,
)
from connect.errors import ConfigError


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "  ", ()),
        (ConfigType.LIST, " a , b ", ("a", "b")),
        (ConfigType.LIST, "a,,b", ("a", "", "b")),
        (ConfigType.LIST, ",", ("", "")),
        (ConfigType.INT, " 12 ", 12),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, "-2147483648", -2147483648),
        (ConfigType.LONG, "9223372036854775807", 9223372036854775807),
        (ConfigType.SHORT, "-1", -1),
        (ConfigType.DOUBLE, "1d", 1.0),
        (ConfigType.DOUBLE, "1e400", float("inf")),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.BOOLEAN, "TRUE ", True),
        (ConfigType.BOOLEAN, "False", False),
        (ConfigType.STRING, " x ", "x"),
        (ConfigType.CLASS, " org.example.Thing ", "org.example.Thing"),
        (ConfigType.PASSWORD, " secret ", SecretStr("secret")),
        (ConfigType.STRING, None, None),
    ],
)
def test_text_becomes_a_value_by_javas_rules(
    kind: ConfigType, text: str | None, value: ConfigScalar
) -> None:
    assert parse_value("k", text, kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (
            ConfigType.INT,
            "12.5",
            "Invalid value 12.5 for configuration k: Not a number of type INT",
        ),
        (
            ConfigType.INT,
            "2147483648",
            "Invalid value 2147483648 for configuration k: Not a number of type INT",
        ),
        (
            ConfigType.INT,
            "0x10",
            "Invalid value 0x10 for configuration k: Not a number of type INT",
        ),
        (
            ConfigType.SHORT,
            "40000",
            "Invalid value 40000 for configuration k: Not a number of type SHORT",
        ),
        (ConfigType.LONG, "", "Invalid value  for configuration k: Not a number of type LONG"),
        (
            ConfigType.DOUBLE,
            "1,5",
            "Invalid value 1,5 for configuration k: Not a number of type DOUBLE",
        ),
        (
            ConfigType.BOOLEAN,
            "yes",
            "Invalid value yes for configuration k: Expected value to be either true or false",
        ),
    ],
)
def test_text_of_another_type_is_refused_in_javas_words(
    kind: ConfigType, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_value("k", text, kind)
    assert str(caught.value) == message
    assert caught.value.key == "k"


@pytest.mark.parametrize("kind", [ConfigType.SHORT, ConfigType.INT, ConfigType.LONG])
@given(number=st.integers(-(2**63), 2**63 - 1))
def test_integers_outside_of_their_width_are_refused(kind: ConfigType, number: int) -> None:
    bits = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}[kind]
    if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        assert parse_value("k", str(number), kind) == number
    else:
        with pytest.raises(ConfigError):
            parse_value("k", str(number), kind)


@given(st.lists(st.text("abc.*-", min_size=1), min_size=1))
def test_a_list_is_printed_as_it_is_parsed(elements: list[str]) -> None:
    assert parse_value("k", format_value(elements), ConfigType.LIST) == tuple(elements)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        (
            ConfigKey("W", ConfigType.INT, validator=Range(1, 8)),
            "9",
            "Invalid value 9 for configuration W: Value must be no more than 8",
        ),
        (
            ConfigKey("W", ConfigType.INT, validator=Range(1)),
            "0",
            "Invalid value 0 for configuration W: Value must be at least 1",
        ),
        (
            ConfigKey("N", ConfigType.STRING, validator=NonEmptyString()),
            "  ",
            "Invalid value  for configuration N: String must be non-empty",
        ),
        (
            ConfigKey("V", ConfigType.STRING, validator=OneOf(("x", "y"))),
            "X",
            "Invalid value X for configuration V: String must be one of: x, y",
        ),
        (
            ConfigKey("V", ConfigType.STRING, validator=OneOf(("X", "Y"), ignore_case=True)),
            "z",
            "Invalid value z for configuration V: String must be one of (case insensitive): X, Y",
        ),
        (
            ConfigKey("L", ConfigType.LIST, validator=ValidList(("a", "b"))),
            "c",
            "Invalid value c for configuration L: String must be one of: a, b",
        ),
        (
            ConfigKey("L", ConfigType.LIST, validator=ValidList(allow_empty=False)),
            "",
            "Configuration 'L' must not be empty. Valid values include: any non-empty value",
        ),
        (
            ConfigKey("L", ConfigType.LIST, validator=ValidList()),
            "a,,b",
            "Configuration 'L' values must not be empty.",
        ),
        (
            ConfigKey("L", ConfigType.LIST, validator=UniqueAliases("predicate")),
            "a,a",
            "Invalid value [a, a] for configuration L: Duplicate alias provided.",
        ),
    ],
)
def test_validators_refuse_in_javas_words(key: ConfigKey, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConfigDef([key]).parse({key.name: text})
    assert str(caught.value) == message


def test_a_name_with_control_characters_is_refused_without_printing_them() -> None:
    with pytest.raises(ConfigError, match=r"ASCII chars: 7") as caught:
        PrintableName().check("name", "a\x07b")
    assert "\x07" not in str(caught.value)


def test_duplicates_in_a_list_are_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    definition = ConfigDef([ConfigKey("topics", ConfigType.LIST, validator=ValidList())])
    with caplog.at_level(logging.WARNING):
        assert definition.parse({"topics": "a,b,a"}).strings("topics") == ("a", "b")
    assert "topics" in caplog.text


DEFINITION = ConfigDef(
    [
        ConfigKey("name", ConfigType.STRING, REQUIRED, doc="What it is called."),
        ConfigKey("limit", ConfigType.INT, 3, Range(1), Importance.HIGH, "How many | at most."),
        ConfigKey("topics", ConfigType.LIST, (".*",), ValidList()),
        ConfigKey("password", ConfigType.PASSWORD, None),
        ConfigKey("task.index", ConfigType.INT, None, internal=True),
    ]
)


def test_a_missing_required_key_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        DEFINITION.parse({})
    assert str(caught.value) == (
        'Missing required configuration "name" which has no default value.'
    )


def test_defaults_and_given_values_come_typed() -> None:
    parsed = DEFINITION.parse({"name": "n", "limit": "7", "other": "kept"})
    assert parsed.string("name") == "n"
    assert parsed.integer("limit") == 7
    assert parsed.strings("topics") == (".*",)
    assert parsed.optional_integer("task.index") is None
    assert parsed.originals["other"] == "kept"


def test_validation_reports_every_key_and_hides_secrets() -> None:
    outcome = DEFINITION.validate({"limit": "x", "password": "hunter2"})
    assert outcome == [
        ConfigValue(
            "name",
            None,
            errors=('Missing required configuration "name" which has no default value.',),
        ),
        ConfigValue(
            "limit",
            None,
            errors=(
                "Invalid value x for configuration limit: Not a number of type INT",
                "Invalid value null for configuration limit: Value must be non-null",
            ),
        ),
        ConfigValue("topics", ".*"),
        ConfigValue("password", "[hidden]"),
        ConfigValue("task.index", None),
    ]


def test_a_secret_is_printed_nowhere() -> None:
    parsed = DEFINITION.parse({"name": "n", "password": "hunter2"})
    secret = parsed.secret("password")
    assert secret is not None
    assert secret.reveal() == "hunter2"
    for shown in (f"{secret}", repr(secret), str(secret), f"{secret:>10}", repr(parsed)):
        assert "hunter2" not in shown
    assert f"{secret}" == "[hidden]"


def test_the_reference_table_has_every_public_key_and_escapes_its_separator() -> None:
    table = DEFINITION.markdown_table().splitlines()
    assert table[2] == "| `name` | STRING | required |  | medium | What it is called. |"
    assert table[3] == "| `limit` | INT | `3` | [1,...] | high | How many \\| at most. |"
    assert not any("task.index" in line for line in table)
