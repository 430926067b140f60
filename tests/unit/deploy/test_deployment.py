"""The files of deploy/ that people deploy: units, image, compose, manifests, chart."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from api.cli.container import environment_properties
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from tests.support.deployment.monitoring import OPERATOR_LABELS
from tests.support.deployment.pod_monitor import POD_MONITOR

DEPLOY = Path(__file__).parents[3] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
WITH_SPARK = DEPLOY / "container" / "Containerfile.spark"
CHART = DEPLOY / "helm" / "kafka-connect-mirror"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
KUBERNETES = "1.32"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
MOST_EXPOSURE = 20  # tenths: "OK" of systemd-analyze security begins at 2.0
TIMEOUT_S = 60.0

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
# Beside the Python that runs the tests; there is none for other machines.
HADOLINT = shutil.which("hadolint", path=Path(sys.executable).parent) or shutil.which("hadolint")
needs_hadolint = pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed")
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")


def run(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_right_and_hardened(unit: Path, tmp_path: Path) -> None:
    # The program and its manual are not installed here.
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.M)
    text = re.sub(r"^Documentation=.*\n", "", text, flags=re.M)
    copy = tmp_path / unit.name
    copy.write_text(text)
    assert "Unknown" not in run("systemd-analyze", "verify", "--man=no", str(copy))
    run(
        "systemd-analyze",
        "security",
        "--offline=true",
        f"--threshold={MOST_EXPOSURE}",
        "--no-pager",
        str(copy),
    )


def test_units_do_not_restart_what_a_restart_cannot_mend() -> None:
    assert len(UNITS) == 2
    for unit in UNITS:
        codes = re.findall(r"^RestartPreventExitStatus=(.*)", unit.read_text(), re.M)[0].split()
        assert "78" in codes


def test_the_image_is_slim_and_does_not_run_as_root() -> None:
    stages = re.split(r"^FROM ", CONTAINERFILE.read_text(), flags=re.M)
    last = stages[-1]
    assert last.startswith("${PYTHON_SLIM}")
    assert re.findall(r"^USER (\S+)", last, re.M) == ["65534:65534"]
    assert "HEALTHCHECK" in last
    assert not re.search(r"^ADD |:latest\b|\bsudo\b", CONTAINERFILE.read_text(), re.M)
    assert "--require-hashes" in stages[-2]
    # What is copied into the image exists.
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", CONTAINERFILE.read_text(), re.M)
    names = [name for line in copied for name in line.split()]
    assert [name for name in names if not (DEPLOY.parent / name).exists()] == []


@needs_hadolint
@pytest.mark.parametrize("file", [CONTAINERFILE, WITH_SPARK], ids=lambda file: str(file.name))
def test_hadolint_finds_nothing(file: Path) -> None:
    run(str(HADOLINT), str(file))


def test_the_image_with_spark_has_the_version_of_pyspark_and_does_not_run_as_root() -> None:
    text = WITH_SPARK.read_text()
    [image] = re.findall(r"^ARG SPARK=apache/spark:([\d.]+)-", text, re.M)
    assert f"\npyspark=={image} " in (DEPLOY.parent / "requirements-image.lock").read_text()
    assert re.findall(r"^USER (\S+)", text, re.M)[-1] == "65534:65534"


def test_the_file_for_yarn_and_that_for_kubernetes_are_valid() -> None:
    page = (DEPLOY.parent / "docs" / "how-to" / "spark-on-kubernetes.md").read_text()
    [of_page] = re.findall(r"```properties[^\n]*\n(.*?)```", page, re.S)
    for text, master in (
        ((DEPLOY / "yarn" / "mm2.properties").read_text(), "yarn"),
        (of_page, "k8s"),
    ):
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        config = MirrorMakerConfig.from_properties(dict(line.split(" = ", 1) for line in lines))
        config.validate()
        assert config.warnings == ()
        [flow] = [each for each in config.flows() if config.mirrors(each)]
        props = config.connector_config(flow.source, flow.target, "MirrorSourceConnector")
        assert props["spark.master"].startswith(master)
        assert props["mirror.engine"] == "spark"


def test_the_mirror_of_compose_has_a_valid_configuration() -> None:
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    mirror = compose["services"]["mirror"]
    props = environment_properties("mirror", mirror["environment"])
    config = MirrorMakerConfig.from_properties(props)
    config.validate()
    assert [str(flow) for flow in config.flows() if config.mirrors(flow)] == ["paris->tokyo"]
    assert config.warnings == ()
    servers = {props["paris.bootstrap.servers"], props["tokyo.bootstrap.servers"]}
    assert {server.split(":")[0] for server in servers} <= compose["services"].keys()
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / "compose" / source).exists()


def manifests() -> Iterator[tuple[str, Any]]:
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield f"{path.name} {document['kind']}", document


@pytest.mark.parametrize(("name", "document"), list(manifests()), ids=lambda each: str(each)[:40])
def test_manifests_match_the_schemas_of_kubernetes(name: str, document: Any) -> None:
    validate(document)


def validate(document: Any) -> None:
    """Compare with the schema of Kubernetes, or of the Prometheus operator. Raises an error that
    names what is wrong."""
    if document["kind"] == "PodMonitor":
        jsonschema.validate(document, POD_MONITOR)
    else:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [("podMetricEndpoints", []), ("selector", None), ("podMetricsEndpoints", [{"interval": "15"}])],
)
def test_a_pod_monitor_that_the_operator_refuses_is_found(field: str, value: object) -> None:
    [monitor] = [document for _, document in manifests() if document["kind"] == "PodMonitor"]
    monitor["spec"][field] = value
    with pytest.raises(jsonschema.ValidationError):
        validate(monitor)


def test_pods_get_the_labels_that_strimzis_dashboard_asks_for() -> None:
    [monitor] = [document for _, document in manifests() if document["kind"] == "PodMonitor"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    given = {each["targetLabel"] for each in endpoint["relabelings"]}
    # Prometheus' operator adds the others itself.
    assert given == OPERATOR_LABELS - {"namespace"}
    assert endpoint["path"] == "/metrics"


def deployments() -> list[Any]:
    return [document for _, document in manifests() if document["kind"] == "Deployment"]


def test_deployments_are_probed_restricted_and_rolled_one_by_one() -> None:
    assert len(deployments()) == 3
    for deployment in deployments():
        assert deployment["spec"]["strategy"]["rollingUpdate"] == {
            "maxUnavailable": 1,
            "maxSurge": 0,
        }
        pod = deployment["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
        assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"
        # No password is a variable: others can read the environment of a process.
        names = {each["name"] for each in container.get("env", ())}
        assert not any("PASSWORD" in name or "JAAS" in name for name in names)


def test_the_chart_uses_only_values_that_it_declares() -> None:
    declared = yaml.safe_load((CHART / "values.yaml").read_text())
    used = {
        path
        for template in (CHART / "templates").iterdir()
        for path in re.findall(r"\.Values\.([\w.]+)", template.read_text())
    }
    assert used
    for path in used:
        value = declared
        for part in path.split("."):
            assert part in value, path
            value = value[part]
    config = MirrorMakerConfig.from_properties(
        dict(line.split(" = ", 1) for line in declared["properties"].splitlines())
    )
    config.validate()


@needs_helm
@pytest.mark.parametrize("values", [None, *EXAMPLES], ids=lambda each: each and each.stem)
def test_the_chart_is_linted_and_renders_to_valid_manifests(values: Path | None) -> None:
    options = [] if values is None else ["--values", str(values)]
    run("helm", "lint", "--strict", str(CHART), *options)
    documents = rendered(*options)
    assert {"Deployment", "PodDisruptionBudget"} <= documents.keys()
    for kind, document in documents.items():
        assert document["kind"] == kind
        validate(document)


@needs_helm
@pytest.mark.parametrize(
    ("example", "manifest"), [("mirror", "mirror"), ("distributed", "connect")]
)
def test_the_chart_makes_what_the_manifests_say(example: str, manifest: str) -> None:
    chart = rendered("--values", str(CHART / "examples" / f"{example}.yaml"))
    plain = {
        each["kind"]: each
        for name in (f"{manifest}.yaml", "pod-monitor.yaml")
        for each in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text())
    }
    assert chart.keys() == plain.keys() - ({"PodMonitor"} - chart.keys())
    assert pod(chart["Deployment"]) == pod(plain["Deployment"])
    for kind in chart.keys() & {"PodDisruptionBudget", "PodMonitor", "Service"}:
        assert without_names(chart[kind]["spec"]) == without_names(plain[kind]["spec"])
    for field in ("replicas", "strategy"):
        assert chart["Deployment"]["spec"][field] == plain["Deployment"]["spec"][field]


@needs_helm
def test_workers_of_the_chart_listen_where_they_are_probed() -> None:
    options = ["--set", "mode=distributed", "--set", "port=9000"]
    [container] = rendered(*options)["Deployment"]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert environment_properties("distributed", variables)["listeners"] == "http://:9000"
    assert container["ports"] == [{"name": "pages", "containerPort": 9000}]


@needs_helm
def test_numbers_of_a_values_file_stay_as_they_are(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("environment: {MIRROR_A: 1000000, MIRROR_B: 0.5, MIRROR_C: true}\n")
    documents = rendered("--values", str(values))
    [container] = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert [each["value"] for each in container["env"]] == ["1000000", "0.5", "true"]


def rendered(*options: str) -> dict[str, Any]:
    """What helm makes of the chart, by kind."""
    text = run("helm", "template", "m", str(CHART), "--kube-version", KUBERNETES, *options)
    return {each["kind"]: each for each in yaml.safe_load_all(text) if each}


def pod(deployment: Any) -> dict[str, Any]:
    """A deployment's pod, with its container and the files in it, but for names that both choose
    freely."""
    spec = dict(deployment["spec"]["template"]["spec"])
    [container] = spec.pop("containers")
    volumes = {each.pop("name"): each for each in map(dict, spec.pop("volumes"))}
    container = {**container, "name": "", "imagePullPolicy": "IfNotPresent"}
    mounts = {each.pop("name"): each for each in map(dict, container.pop("volumeMounts"))}
    container["files"] = {each["mountPath"]: (each, volumes[name]) for name, each in mounts.items()}
    container["env"] = {each["name"]: each for each in container.get("env", ())}
    return {**spec, **container}


def without_names(spec: Any) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "selector"}
