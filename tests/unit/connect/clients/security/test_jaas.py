"""Reading `sasl.jaas.config` without ever repeating what it holds."""

from __future__ import annotations

import pytest

from connect.clients.security.jaas import parse_jaas
from connect.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            'a.b.PlainLoginModule required username="u" password="p";',
            {"username": "u", "password": "p"},
        ),
        (
            "a.b.PlainLoginModule required username=u password='p q' ;",
            {"username": "u", "password": "p q"},
        ),
        ('PlainLoginModule REQUIRED\n  password="a\\"b\\\\c;=d" ;\n', {"password": 'a"b\\c;=d'}),
        (
            "PlainLoginModule required // comment\n useKeyTab=true /* more */ n=1;",
            {"useKeyTab": "true", "n": "1"},
        ),
        ('PlainLoginModule optional empty="";', {"empty": ""}),
        ('PlainLoginModule required p="\\101\\t";', {"p": "A\t"}),
        ("PlainLoginModule required;", {}),
    ],
)
def test_an_entry_gives_its_options(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert module.name == "PlainLoginModule"
    assert module.options == options


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "class is missing"),
        ("M", "control flag after the class is missing"),
        ('M needed password="hunter2";', "control flag must be one of required"),
        ('M required password="hunter2"', "must end with a semicolon"),
        ('M required password="hunter2;', "no closing quote"),
        ("M required password;", "option password has no '='"),
        ("M required password=;", "a value for the option password is missing"),
        ('M required "hunter2"=x;', "expected an option name"),
        ('M required password="hunter2"; N required;', "exactly one login module"),
    ],
)
def test_a_wrong_entry_is_refused_without_its_secrets(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text)
    assert reason in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.key == "sasl.jaas.config"


def test_options_are_not_printed() -> None:
    assert "hunter2" not in repr(parse_jaas('M required password="hunter2";'))
