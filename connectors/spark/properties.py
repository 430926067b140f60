"""The properties of the Spark session: the user's `spark.*`, on top of defaults that suit a worker.

The default driver is small, because most flows are. Larger flows set the usual Spark properties.
Pure, except for the worker's own properties (`configure_worker`). Does not import PySpark, so that
a worker without Spark jobs does not load it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from connect.config.definition import ConfigDef, ConfigKey, ConfigProblem, Importance
from connect.config.types import ConfigType, invalid_value
from connect.config.validators import Range, ValidList
from connect.errors import ConfigError
from connectors.spark.remote_address import REMOTE_SCHEME, remote_problem, shown_remote
from connectors.spark.versions import avro_functions, kafka_connector

__all__ = [
    "ALLOWED_PROPERTIES",
    "DEFAULT_MASTER",
    "DRIVER_HOST",
    "ENVIRONMENT",
    "EXECUTOR_PYTHON",
    "IDLE_TIMEOUT",
    "MASTER",
    "REMOTE",
    "START_DELAY",
    "check_spark_properties",
    "configure_worker",
    "has_kafka_connector",
    "idle_timeout_s",
    "is_local",
    "not_permitted",
    "place_of",
    "properties_text",
    "refuse_remote",
    "remote_of",
    "runs_here",
    "session_properties",
    "spark_properties",
    "sql_defaults",
    "standalone_masters",
    "start_delay_s",
    "with_avro",
    "worker_properties",
]

PREFIX = "spark."
MASTER = "spark.master"
REMOTE = "spark.remote"
DRIVER_HOST = "spark.driver.host"
EXECUTOR_PYTHON = "spark.pyspark.python"
ENVIRONMENT = "kafka-connect-mirror"
"""The folder in the working directory of executors to which their packages are unpacked."""

DEFAULT_MASTER = "local[*]"

IDLE_TIMEOUT = ConfigKey(
    "mirror.spark.idle.timeout.ms",
    ConfigType.LONG,
    60_000,
    Range(0),
    Importance.LOW,
    "How long the process's Spark session and its JVM stay after the last job; the next job "
    "starts them again. If the connectors of a process differ, the longest counts. 0: they never "
    "stop. Not a key of MirrorMaker 2.",
)

START_DELAY = ConfigKey(
    "mirror.spark.start.max.delay.ms",
    ConfigType.LONG,
    600_000,
    Range(0),
    Importance.LOW,
    "A Spark session on this machine that only periodic jobs need is started once the copies of "
    "the process have caught up, or this long after the process began. Until then the process "
    "computes what is due. Not a key of MirrorMaker 2.",
)

ALLOWED_PROPERTIES = ConfigKey(
    "mirror.spark.allowed.properties",
    ConfigType.LIST,
    (),
    ValidList(),
    Importance.LOW,
    "Spark properties that connectors' configs may contain besides those of size and pace, such "
    "as `spark.executor.memory`. A `*` at the end allows all that begin so. Properties that "
    "choose code, hosts or files give users of the REST API the worker's rights.",
)

# Dependencies of the connector that Spark's own distribution has. Without them 10 MB are downloaded
# instead of 73.
_IN_SPARK = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "org.slf4j:slf4j-api",
    "com.google.code.findbugs:jsr305",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.tukaani:xz",
)

_JAR_KEYS = ("spark.jars.packages", "spark.jars", "spark.driver.extraClassPath")

_LOG_CONFIG = Path(__file__).with_name("log4j2.properties")
_JVM_FLAGS = "-XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto"
"""One collector thread, because the heap is small and the copy needs the cores."""
_LOCAL_JVM_FLAGS = "-XX:TieredStopAtLevel=1"
"""Only the first-tier compiler. It cut the CPU of the start and of small jobs by 40 %, and cost 40
% more for the largest. For large jobs, set level 4 in spark.driver.extraJavaOptions."""

_DEFAULTS = {
    "spark.app.name": "kafka-connect-mirror",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    # Spark's own patterns, and keys with a password in the middle.
    "spark.redaction.regex": "(?i)secret|password|passphrase|token|access[.]?key|jaas",
    "spark.ui.showConsoleProgress": "false",
    # Overrides the machine's defaults, because a copy does not benefit from it.
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Larger tables stay in Arrow format until a task reads them, because rows take ten times the
    # memory.
    "spark.sql.execution.arrow.localRelationThreshold": "1m",
    # Each batch is one task. Spark's default of 10,000 rows takes less time than the task overhead.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Python processes of executors must not import from their working directory (like Python's -P).
    # With a local master this process is the executor.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    # The driver keeps a thousand finished jobs of each kind for a web page that is switched off.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
}

_LOCAL_DEFAULTS = {
    DRIVER_HOST: "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Other users of this machine reach that address too. Spark makes the secret itself.
    "spark.authenticate": "true",
    # With a local master the executor is in the driver, so there are no heartbeats to miss.
    "spark.executor.heartbeatInterval": "60s",
    "spark.network.timeout": "300s",
}

_MOST_LOCAL_SHUFFLES = 8


def spark_properties(props: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark properties among a worker's, flow's or connector's properties."""
    return {key: value for key, value in props.items() if key.startswith(PREFIX)}


_worker: dict[str, str] = {}


def configure_worker(props: Mapping[str, str]) -> None:
    """Set the worker's own properties. Their `spark.*` are defaults for all connectors. Called
    once, before connectors start."""
    _worker.update(spark_properties(props))


def worker_properties() -> dict[str, str]:
    """Return the Spark properties that `configure_worker` received."""
    return dict(_worker)


def idle_timeout_s(props: Mapping[str, str]) -> float:
    """Return how long an idle session stays; infinite for 0. Raises `ConfigError`."""
    milliseconds = ConfigDef([IDLE_TIMEOUT]).parse(props).integer(IDLE_TIMEOUT.name)
    return milliseconds / 1000 if milliseconds else math.inf


def start_delay_s(props: Mapping[str, str]) -> float:
    """The seconds after which a session on this machine may start although copies have not caught
    up. Raises `ConfigError`."""
    return ConfigDef([START_DELAY]).parse(props).integer(START_DELAY.name) / 1000


def is_local(master: str) -> bool:
    """Whether driver and executor are one process."""
    return master.startswith("local") and not master.startswith("local-cluster")


def remote_of(given: Mapping[str, str]) -> str:
    """Return the address of the Spark Connect server; empty if `spark.remote` names none."""
    return given.get(REMOTE, "").strip()


def runs_here(given: Mapping[str, str]) -> bool:
    """Whether the session with these properties computes on this machine, in a JVM of this
    process."""
    return not remote_of(given) and is_local(given.get(MASTER, DEFAULT_MASTER))


def place_of(given: Mapping[str, str]) -> str:
    """Return where the session with these properties computes, in a form for logs and metrics."""
    remote = remote_of(given)
    return shown_remote(remote) if remote else given.get(MASTER, DEFAULT_MASTER)


def check_spark_properties(given: Mapping[str, str]) -> None:
    """Raise `ConfigError` for properties that no session can be created with."""
    remote, master = remote_of(given), given.get(MASTER, "").strip()
    if master.startswith(REMOTE_SCHEME):
        raise ConfigError(
            f"{MASTER}={shown_remote(master)} is the address of a Spark Connect server: set "
            f"{REMOTE} to it instead, and no {MASTER}",
            key=MASTER,
        )
    if not remote:
        return
    if (problem := remote_problem(remote)) is not None:
        raise ConfigError(f"Invalid value for {REMOTE}: {problem}", key=REMOTE)
    if master:
        raise ConfigError(
            f"{REMOTE}={shown_remote(remote)} and {MASTER}={master} are both set, but a Spark "
            f"Connect server has a master of its own: remove one of them",
            key=REMOTE,
        )


def refuse_remote(what: str, given: Mapping[str, str], instead: str) -> None:
    """Raise `ConfigError` if these properties name a Spark Connect server, through which this
    cannot run. `instead`: what to do."""
    remote = remote_of(given)
    if remote:
        raise ConfigError(
            f"{what} cannot run through Spark Connect ({REMOTE}={shown_remote(remote)}), because "
            f"it needs a Spark driver of this process: {instead}",
            key=REMOTE,
        )


# Properties of size and pace: they name no code, host or file.
_SIZE_AND_PACE = (
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.cores",
    "spark.driver.maxResultSize",
    "spark.driver.memory",
    "spark.driver.memoryOverhead",
    "spark.driver.memoryOverheadFactor",
    "spark.dynamicAllocation.*",
    "spark.executor.cores",
    "spark.executor.heartbeatInterval",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.executor.pyspark.memory",
    "spark.locality.wait*",
    "spark.memory.fraction",
    "spark.memory.storageFraction",
    "spark.network.timeout",
    "spark.rpc.askTimeout",
    "spark.scheduler.mode",
    "spark.sql.adaptive.*",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.shuffle.partitions",
    "spark.task.cpus",
    "spark.task.maxFailures",
)
_NO_CLASS = "spark.sql.adaptive.customCostEvaluatorClass"
_PLAIN_VALUE = re.compile(r"-?[0-9.]+[A-Za-z]*|[A-Za-z]+")


def not_permitted(given: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yield the Spark properties that only the operator may set. `given`: a connector's config;
    `worker`: the worker's properties, which may allow more."""
    allowed = ConfigDef([ALLOWED_PROPERTIES]).parse(worker).strings(ALLOWED_PROPERTIES.name)
    for key, value in spark_properties(given).items():
        if _matches(key, allowed) or worker.get(key) == value:
            continue
        if key == _NO_CLASS or not _matches(key, _SIZE_AND_PACE):
            yield ConfigProblem(
                key,
                f"{key} may not be set in a connector's config, because it can choose code, hosts "
                f"or files. Set it in the worker's properties, or let its operator add it to "
                f"{ALLOWED_PROPERTIES.name} there",
            )
        elif not _PLAIN_VALUE.fullmatch(value.strip()):
            yield ConfigProblem(
                key,
                str(invalid_value(key, value, "must be a number, a size, a time or a word")),
            )


def _matches(key: str, names: Iterable[str]) -> bool:
    return any(key.startswith(name[:-1]) if name.endswith("*") else key == name for name in names)


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """Return host and port of each master in a `spark://` URL; empty for other URLs."""
    if not master.startswith("spark://"):
        return []
    found = []
    for element in master.removeprefix("spark://").split(","):
        host, colon, port = element.rpartition(":")
        if colon and port.isdigit():
            found.append((host.strip("[]"), int(port)))
    return found


def has_kafka_connector(props: Mapping[str, str]) -> bool:
    """Whether these properties add Spark's Kafka source, as a package or as a jar."""
    return any("spark-sql-kafka-0-10" in props.get(key, "") for key in _JAR_KEYS)


def with_avro(props: Mapping[str, str]) -> dict[str, str]:
    """Return these properties, and Spark's Avro functions among their packages."""
    result = dict(props)
    if not any("spark-avro_" in result.get(key, "") for key in _JAR_KEYS):
        _append_packages(result, avro_functions())
    return result


def session_properties(
    given: Mapping[str, str], *, kafka: bool, cache: Path, cores: int | None = None
) -> dict[str, str]:
    """Return all properties of a session. `given`: the user's, which take precedence. `kafka`: add
    Spark's Kafka source, downloaded to `cache`. `cores`: of this machine."""
    master = given.get(MASTER, DEFAULT_MASTER)
    result = dict(_DEFAULTS)
    if is_local(master):
        shuffles = min(_MOST_LOCAL_SHUFFLES, cores or os.cpu_count() or 1)
        result.update(_LOCAL_DEFAULTS)
        result["spark.sql.shuffle.partitions"] = str(shuffles)
    result.update(given)
    result[MASTER] = master
    _add_packages(result, kafka, cache)
    flags = f"-Dlog4j2.configurationFile={_LOG_CONFIG.as_uri()} {_JVM_FLAGS}"
    if is_local(master):
        flags = f"{flags} {_LOCAL_JVM_FLAGS}"
    options = "spark.driver.extraJavaOptions"
    result[options] = f"{flags} {result.get(options, '')}".strip()
    return result


def sql_defaults() -> dict[str, str]:
    """Return the defaults that belong to a session, and not to its driver."""
    return {key: value for key, value in _DEFAULTS.items() if key.startswith("spark.sql.")}


def _add_packages(props: dict[str, str], kafka: bool, cache: Path) -> None:
    if kafka and not has_kafka_connector(props):
        _append_packages(props, kafka_connector())
    if "spark.jars.packages" in props:
        props.setdefault("spark.jars.ivy", str(cache / "ivy"))


def _append_packages(props: dict[str, str], package: str) -> None:
    """Add a package of Spark's own, without the dependencies that Spark has."""
    _append(props, "spark.jars.packages", package)
    _append(props, "spark.jars.excludes", ",".join(_IN_SPARK))


def _append(props: dict[str, str], key: str, value: str) -> None:
    props[key] = f"{props[key]},{value}" if props.get(key) else value


def properties_text(props: Mapping[str, str]) -> str:
    """Format the properties as a Java properties file."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in props.items())


def _escaped(text: str) -> str:
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "=": "\\=", ":": "\\:"}
    special |= {"#": "\\#", "!": "\\!", " ": "\\ "}
    return "".join(special.get(char, char) for char in text)
