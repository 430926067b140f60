"""What chooses files, hosts or code of a worker comes from its operator: others get 400."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.rest import call
from tests.support.workers.standalone_rest import create, standalone_rest

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"
TOKENS = "https://tokens.example/token"
MIRROR = {
    "connector.class": "MirrorSource",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "127.0.0.1:9",
    "target.cluster.bootstrap.servers": "127.0.0.1:9",
}
PACKAGE, POLICY = "org.apache.kafka.connect.mirror.", "ReplicationPolicy"
SINK = {"connector.class": "FileStreamSink", "topics": "t"}
SOURCE = {"connector.class": "FileStreamSource", "topic": "t"}


def answer(config: dict[str, str], props: dict[str, str] | None = None, opts: str = "") -> str:
    """Of a worker with these properties and KAFKA_OPTS: "" if it creates the connector, else why
    not."""
    environment = {"KAFKA_OPTS": opts} if opts else {}
    with standalone_rest(props, environment) as url:
        got = create(url, "c", config)
        if got.status == 201:
            return ""
        assert got.status == 400
        return got.error[1]


@pytest.mark.parametrize(
    "key",
    [
        "spark.jars.packages",
        "spark.jars.repositories",
        "spark.plugins",
        "spark.driver.extraJavaOptions",
        "spark.executorEnv.PATH",
        "spark.pyspark.python",
        "spark.master",
        "spark.dynamicAllocationX",
        "spark.sql.adaptive.customCostEvaluatorClass",
        "spark.some.future.key",
    ],
)
def test_a_connector_may_not_choose_code_or_hosts_of_spark(key: str) -> None:
    assert f"{key} may not be set in a connector's config" in answer({**MIRROR, key: "x"})


def test_a_connector_sets_the_size_and_the_pace_of_spark() -> None:
    sizes = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.dynamicAllocation.maxExecutors": "4",
        "spark.sql.shuffle.partitions": "8",
        "spark.network.timeout": "300s",
    }
    assert answer({**MIRROR, **sizes}) == ""


def test_a_size_hides_no_option_of_the_jvm() -> None:
    hidden = {"spark.driver.memory": "1g -XX:OnOutOfMemoryError=id"}
    assert "Invalid value 1g -XX" in answer({**MIRROR, **hidden})


def test_the_operator_allows_further_properties_of_spark() -> None:
    mine = {"spark.master": "spark://m:7077", "spark.kubernetes.namespace": "n"}
    allowed = {"mirror.spark.allowed.properties": "spark.master,spark.kubernetes.*"}
    assert answer({**MIRROR, **mine}, allowed) == ""
    assert answer({**MIRROR, **mine}, mine) == ""


@pytest.mark.parametrize(
    "value",
    [
        "SELECT topic, partition, offset, java_method('java.lang.Runtime', 'getRuntime') AS value "
        "FROM records",
        "/tmp/uploaded.py:change",
        "os:system",
        "an-entry-point",
    ],
)
def test_a_connector_may_not_bring_a_transformation(value: str) -> None:
    """Not when it is created, nor by a validation, a change of its config or a patch of it."""
    key = "mirror.transform"
    mine = {**MIRROR, key: value}
    with standalone_rest({"mirror.transform.topics": ".*"}) as url:
        assert create(url, "c", MIRROR).status == 201
        refused = [
            create(url, "d", mine),
            call(url, "PUT", "/connectors/c/config", mine),
            call(url, "PATCH", "/connectors/c/config", {key: value}),
        ]
        checked = call(url, "PUT", "/connector-plugins/MirrorSource/config/validate", mine).json()
        assert key not in call(url, "GET", "/connectors/c").json()["config"]
    for got in refused:
        assert got.status == 400
        assert f"Invalid value {value} for configuration {key}" in got.error[1]
        assert "its operator can set the same key" in got.error[1]
    (named,) = [each["value"] for each in checked["configs"] if each["value"]["name"] == key]
    assert named["errors"]


def test_a_connector_may_use_the_transformation_of_its_operator() -> None:
    query = {"mirror.transform": "SELECT topic, partition, offset FROM records"}
    assert answer({**MIRROR, "mirror.engine": "spark", **query}, query) == ""
    other = {"mirror.transform": "SELECT * FROM records"}
    assert "its operator" in answer({**MIRROR, "mirror.engine": "spark", **other}, query)


@pytest.mark.parametrize(
    "prefix", ["source.cluster.", "target.producer.", "consumer.override.", ""]
)
@pytest.mark.parametrize("url", [TOKENS, "file:///etc/passwd", "http://169.254.169.254/"])
def test_a_connector_may_not_choose_the_token_endpoint(prefix: str, url: str) -> None:
    key = f"{prefix}sasl.oauthbearer.token.endpoint.url"
    said = answer({**MIRROR, key: url})
    assert f"Invalid value {url} for configuration {key}" in said
    assert ALLOWED_URLS in said


def test_the_operator_allows_token_endpoints_as_for_kafka() -> None:
    config = {**MIRROR, "source.cluster.sasl.oauthbearer.token.endpoint.url": TOKENS}
    assert answer(config, {ALLOWED_URLS: f"http://other/,{TOKENS}"}) == ""
    assert answer(config, opts=f"-Xmx1g -D{ALLOWED_URLS}=http://other/,{TOKENS}") == ""
    assert answer(config, {"producer.sasl.oauthbearer.token.endpoint.url": TOKENS}) == ""
    assert answer(config, {ALLOWED_URLS: f"{TOKENS}/2"}) != ""


def test_files_for_tokens_need_the_operator_too() -> None:
    key = "source.cluster.sasl.oauthbearer.assertion.private.key.file"
    assert ALLOWED_FILES in answer({**MIRROR, key: "/etc/shadow"})
    assert answer({**MIRROR, key: "/etc/key.pem"}, {ALLOWED_FILES: "/etc/key.pem"}) == ""


@pytest.mark.parametrize("given", ["/etc/mine.keytab", "/other,/etc/mine.keytab"])
def test_the_operator_allows_files_as_for_kafka(given: str) -> None:
    opts = f"-Xmx1g -D{ALLOWED_FILES}=/before -D{ALLOWED_FILES}={given} -Dx=y"
    token_file = "source.cluster.sasl.oauthbearer.assertion.private.key.file"
    login = "source.cluster.sasl.jaas.config"
    for path, allowed in {
        "/etc/mine.keytab": True,
        "/etc/mine.keytab.old": False,
        "/etc/../etc/mine.keytab": False,
        # Of two options of one name, Java takes the last.
        "/before": False,
    }.items():
        for config in ({token_file: path}, {login: kerberos("keyTab", path)}):
            said = answer({**MIRROR, **config}, opts=opts)
            assert (said == "") is allowed, said
            assert allowed or ALLOWED_FILES in said


def test_a_connector_may_not_choose_the_history() -> None:
    url = "postgresql://user:canary@evil/history"
    key = "mirror.history.url"
    said = answer({**MIRROR, key: url})
    assert key in said
    assert "canary" not in said
    assert answer({**MIRROR, key: url}, {"mirror.history.allowed.urls": url}) == ""
    assert answer({**MIRROR, key: "none"}) == ""


@pytest.mark.parametrize("config", [SOURCE, SINK])
def test_file_connectors_are_off_unless_the_worker_names_their_directory(
    config: dict[str, str], tmp_path: Path
) -> None:
    file = {"file": str(tmp_path / "in" / "file.txt")}
    off = {"file.connectors.root": ""}
    assert "file.connectors.root" in answer({**config, **file}, off)
    assert "file.connectors.root" in answer(config, off)
    assert answer({**config, **file}, {"file.connectors.root": str(tmp_path)}) == ""


@pytest.mark.parametrize("config", [SOURCE, SINK])
def test_file_connectors_do_not_leave_their_directory(
    config: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    for file in ("/etc/passwd", f"{root}/../out", f"{root}/link/passwd", f"{root}x"):
        said = answer({**config, "file": file}, {"file.connectors.root": str(root)})
        assert f"Invalid value {file} for configuration file" in said


ALLOWED_SERVERS = "connector.client.allowed.bootstrap.servers"
EVIL = "source.cluster.bootstrap.servers"


@pytest.mark.parametrize("servers", ["evil:9092", "127.0.0.1:9, evil:9092", "127.0.0.1.evil:9"])
def test_a_login_goes_only_to_the_servers_that_the_operator_allows(servers: str) -> None:
    allowed = {ALLOWED_SERVERS: "127.0.0.1, Kafka.example:9092"}
    told = answer({**MIRROR, EVIL: servers}, allowed)
    assert EVIL in told
    assert ALLOWED_SERVERS in told
    told = answer({**SINK, "consumer.override.bootstrap.servers": servers}, allowed)
    assert ALLOWED_SERVERS in told


def test_servers_are_allowed_by_host_or_with_their_port_and_all_without_a_list() -> None:
    allowed = {ALLOWED_SERVERS: "127.0.0.1, Kafka.example:9092"}
    assert answer({**MIRROR, EVIL: "127.0.0.1:1, kafka.example:9092"}, allowed) == ""
    assert ALLOWED_SERVERS in answer({**MIRROR, EVIL: "kafka.example:9093"}, allowed)
    assert answer({**MIRROR, EVIL: "evil:9092"}) == ""


def test_a_stored_config_is_held_to_the_permissions_of_today(tmp_path: Path) -> None:
    """A link that appears after the connector was created leads nowhere."""
    file = tmp_path / "file"
    with standalone_rest({"file.connectors.root": str(tmp_path)}) as url:
        assert create(url, "c", {**SOURCE, "file": str(file)}).status == 201
        os.symlink("/etc/passwd", file)
        call(url, "PUT", "/connectors/c/resume")
        assert call(url, "GET", "/connectors/c/offsets").status == 400


def kerberos(option: str, path: str) -> str:
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
        f'principal="mirror@R" password="canary" {option}="{path}";'
    )


@pytest.mark.parametrize("option", ["keyTab", "ticketCache"])
@pytest.mark.parametrize("prefix", ["source.cluster.", "consumer.override."])
def test_a_connector_may_use_only_the_principals_that_the_operator_allows(
    prefix: str, option: str
) -> None:
    mine = {**MIRROR, f"{prefix}sasl.jaas.config": kerberos(option, "/etc/other.keytab")}
    said = answer(mine)
    assert f"configuration {prefix}sasl.jaas.config" in said
    assert "may not use the file /etc/other.keytab" in said
    assert ALLOWED_FILES in said
    assert "canary" not in said
    assert answer(mine, {ALLOWED_FILES: "/etc/other.keytab"}) == ""
    own = {"sasl.jaas.config": kerberos("keyTab", "/etc/other.keytab")}
    assert answer(mine, own) == ""


@pytest.mark.parametrize(
    "key",
    [
        "replication.policy.class",
        "topic.filter.class",
        "group.filter.class",
        "config.property.filter.class",
    ],
)
@pytest.mark.parametrize("path", ["runs_code:Policy", "runs_code.Policy"])
def test_a_connector_may_not_have_a_module_run(
    key: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may validate could otherwise import any module that Python finds."""
    ran = tmp_path / "ran"
    (tmp_path / "runs_code.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    connectors = ["MirrorSource", "MirrorCheckpoint"]
    with standalone_rest() as url:
        for connector in connectors:
            config = {**MIRROR, "connector.class": connector, key: path}
            refused = create(url, "c", config)
            assert refused.status == 400
            assert "may not load the module runs_code" in refused.error[1]
            plugin = f"/connector-plugins/{connector}/config/validate"
            assert call(url, "PUT", plugin, config).json()["error_count"] > 0
    assert not ran.exists()


def test_a_module_of_the_operator_s_choice_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_policies.py").write_text(
        "from connectors.mirror.replication_policy import IdentityReplicationPolicy\n"
        "class Own(IdentityReplicationPolicy): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    named = {"replication.policy.class": "own_policies:Own"}
    assert answer({**MIRROR, **named}, named) == ""
    assert answer({**MIRROR, "replication.policy.class": f"{PACKAGE}Identity{POLICY}"}) == ""


STORES = "connector.client.allowed.store.directories"
AWS = "connector.client.allowed.aws.identities"
MSK = "software.amazon.msk.auth.iam.IAMLoginModule required"


@pytest.mark.parametrize("kind", ["keystore", "truststore"])
@pytest.mark.parametrize(
    "prefix",
    ["source.cluster.", "target.producer.", "consumer.override.", "value.converter.s.", ""],
)
def test_a_connector_may_not_choose_files_of_tls(prefix: str, kind: str) -> None:
    key = f"{prefix}ssl.{kind}.location"
    said = answer({**MIRROR, key: "/etc/passwd"})
    assert f"Invalid value /etc/passwd for configuration {key}" in said
    assert f"its operator can add its directory to {STORES}" in said


def test_a_validation_refuses_them_too() -> None:
    key = "source.cluster.ssl.keystore.location"
    with standalone_rest() as url:
        asked = {**MIRROR, "name": "c", key: "/etc/passwd"}
        checked = call(url, "PUT", "/connector-plugins/MirrorSource/config/validate", asked).json()
    (named,) = [each["value"] for each in checked["configs"] if each["value"]["name"] == key]
    assert any(STORES in error for error in named["errors"])


def test_the_operator_allows_directories_of_stores(tmp_path: Path) -> None:
    allowed, key = tmp_path / "allowed", "consumer.override.ssl.truststore.location"
    allowed.mkdir()
    (allowed / "link").symlink_to("/etc")
    worker = {STORES: f"/nowhere,{allowed}"}
    sink = {**SINK, "file": str(tmp_path / "out")}
    assert answer({**sink, key: f"{allowed}/client.p12"}, worker) == ""
    for path in ("/etc/x", f"{allowed}/../x", f"{allowed}/link/x", f"{allowed}x/y", "\0"):
        assert STORES in answer({**sink, key: path}, worker)


def test_stores_of_the_worker_and_in_the_config_itself_are_allowed(tmp_path: Path) -> None:
    sink = {**SINK, "file": str(tmp_path / "out")}
    key = "ssl.truststore.location"
    own = {f"producer.{key}": "/etc/worker.pem"}
    assert answer({**sink, f"consumer.override.{key}": "/etc/worker.pem"}, own) == ""
    text = {"consumer.override.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----"}
    assert STORES not in answer({**sink, **text})


@pytest.mark.parametrize("option", ["awsProfileName", "awsRoleArn"])
def test_a_connector_may_not_choose_an_identity_of_aws(option: str) -> None:
    key = "source.cluster.sasl.jaas.config"
    config = {**MIRROR, key: f'{MSK} {option}="admin";'}
    said = answer(config)
    assert f"configuration {key}: connectors of this worker may not use the AWS identity" in said
    assert f"admin; its operator can add it to {AWS}" in said
    assert AWS not in answer(config, {AWS: "other,admin"})
    assert AWS not in answer(config, {"producer.sasl.jaas.config": config[key]})
    assert AWS not in answer({**MIRROR, key: f"{MSK};"})
