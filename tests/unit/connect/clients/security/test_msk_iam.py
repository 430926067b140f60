"""AWS_MSK_IAM: the signature, the region, and what is missing. The signatures are botocore 1.44's
own (`SigV4QueryAuth`) for the same keys and time."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kafka.net.sasl import SASL_MECHANISMS
from kafka.net.sasl.msk import AwsMskIamClient

from connect.clients.config.sasl_properties import is_beyond_librdkafka, wire_sasl
from connect.clients.security import msk_iam
from connect.clients.security.msk_iam import MskIamLogin, MskIamMechanism
from connect.clients.security.own_mechanisms import LOGIN_KEY
from connect.errors import AuthenticationFailed, ConfigError, RetriableError

HOST = "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = "FwoGZXIvYXdzE+/=token"
GOLDEN = {
    None: "f1a2de6a8b971bdf5431bf47963e212abe8b4ea1034db85692dfa0210c06d3b1",
    TOKEN: "f57e87e50764e764fc6f98a246f296af44accc7a88b60a036ee5d282bbde2bde",
}
PROPS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


class BotoFailure(Exception):
    """Stands for botocore's root of errors."""


class Session:
    """As much of a botocore session as is used."""

    token: str | None = None
    region: str | None = None
    keys = True
    failure: Exception | None = None

    def __init__(self, profile: str | None) -> None:
        if profile == "none":
            self.failure = BotoFailure("The config profile (none) could not be found")

    def get_scoped_config(self) -> dict[str, str]:
        if self.failure is not None:
            raise self.failure
        return {}

    def get_config_variable(self, name: str) -> str | None:
        return self.region

    def get_credentials(self) -> Any:
        if self.failure is not None:
            raise self.failure
        frozen = SimpleNamespace(access_key="AKIDEXAMPLE", secret_key=SECRET, token=self.token)
        return SimpleNamespace(get_frozen_credentials=lambda: frozen) if self.keys else None


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> type[Session]:
    class Mine(Session):
        pass

    errors, sessions = ModuleType("botocore.exceptions"), ModuleType("botocore.session")
    errors.BotoCoreError = BotoFailure  # type: ignore[attr-defined]
    sessions.Session = Mine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "botocore", ModuleType("botocore"))
    monkeypatch.setitem(sys.modules, "botocore.exceptions", errors)
    monkeypatch.setitem(sys.modules, "botocore.session", sessions)
    monkeypatch.delenv("AWS_REGION", raising=False)
    msk_iam._session.cache_clear()
    return Mine


@pytest.fixture(autouse=True)
def _no_session_stays() -> Any:
    yield
    msk_iam._session.cache_clear()


@pytest.mark.parametrize("token", [None, TOKEN])
def test_the_signature_is_that_of_aws(
    session: type[Session], token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Then(AwsMskIamClient):  # type: ignore[misc]
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.datestamp, self.timestamp = "20260102", "20260102T030405Z"

    monkeypatch.setattr(msk_iam, "AwsMskIamClient", Then)
    session.token = token
    message = json.loads(MskIamMechanism(MskIamLogin(), HOST).auth_bytes())
    assert message["x-amz-signature"] == GOLDEN[token]
    assert message["x-amz-credential"] == (
        "AKIDEXAMPLE/20260102/eu-west-1/kafka-cluster/aws4_request"
    )
    assert message.get("x-amz-security-token") == token
    assert SECRET not in json.dumps(message)


@pytest.mark.parametrize(
    ("host", "configured", "region"),
    [
        (HOST, "us-east-1", "eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-west-2.amazonaws.com", None, "us-west-2"),
        ("b-1.demo.x.c1.kafka.cn-north-1.amazonaws.com.cn", None, "cn-north-1"),
        ("kafka.example.com", "us-east-1", "us-east-1"),
    ],
)
def test_the_region(session: type[Session], host: str, configured: str | None, region: str) -> None:
    session.region = configured
    message = json.loads(MskIamMechanism(MskIamLogin(), host).auth_bytes())
    assert message["x-amz-credential"].split("/")[2] == region


def test_a_region_that_nobody_names(session: type[Session]) -> None:
    with pytest.raises(ConfigError, match=r"region of kafka\.example\.com .*: set AWS_REGION"):
        MskIamMechanism(MskIamLogin(), "kafka.example.com")


def test_credentials_that_are_missing(session: type[Session]) -> None:
    session.keys = False
    with pytest.raises(AuthenticationFailed, match="the AWS profile p cannot be found on"):
        MskIamMechanism(MskIamLogin("p"), HOST).auth_bytes()


def test_credentials_that_cannot_be_fetched_now(session: type[Session]) -> None:
    mechanism = MskIamMechanism(MskIamLogin(), HOST)
    session.failure = BotoFailure("the metadata service does not answer")
    with pytest.raises(RetriableError, match="the metadata service does not answer"):
        mechanism.auth_bytes()


def test_a_profile_that_does_not_exist(session: type[Session]) -> None:
    with pytest.raises(ConfigError, match=r"profile \(none\) could not be found"):
        MskIamMechanism(MskIamLogin("none"), HOST)


def test_an_empty_answer_is_a_refusal(session: type[Session]) -> None:
    mechanism = MskIamMechanism(MskIamLogin(), HOST)
    mechanism.receive(b"")
    assert (mechanism.is_done(), mechanism.is_authenticated()) == (True, False)
    mechanism.receive(b'{"version":"2020_10_22"}')
    assert mechanism.is_authenticated()


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(ConfigError, match=r"pip install 'kafka-connect-mirror\[msk\]'"):
        SASL_MECHANISMS["AWS_MSK_IAM"](host=HOST, **{LOGIN_KEY: MskIamLogin()})


def test_properties_as_for_java() -> None:
    assert wire_sasl(PROPS) == {LOGIN_KEY: MskIamLogin()}
    assert is_beyond_librdkafka(PROPS)
    jaas = 'a.IAMLoginModule required awsProfileName="mirror";'
    assert wire_sasl({**PROPS, "sasl.jaas.config": jaas}) == {LOGIN_KEY: MskIamLogin("mirror")}


@pytest.mark.parametrize(
    ("changed", "key", "reason"),
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "security.protocol", "needs .* SASL_SSL"),
        (
            {"sasl.jaas.config": 'a.IAMLoginModule required awsRoleArn="arn:aws:x";'},
            "sasl.jaas.config",
            "the option awsRoleArn is not supported",
        ),
        (
            {"sasl.client.callback.handler.class": "x.Y"},
            "sasl.client.callback.handler.class",
            "Java classes cannot be used here",
        ),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        wire_sasl({**PROPS, **changed})
    assert caught.value.key == key
