"""The public interface for plugins: connectors, converters, transformations, predicates, config
providers, client override policies and REST extensions. Import from here; other modules may change.

A source in a few lines:

    from connect.sdk import ConfigDef, ConfigKey, ConfigType, SourceConnector, SourceTask

    class CounterConnector(SourceConnector):
        @classmethod
        def config_def(cls):
            return ConfigDef([ConfigKey("topic", ConfigType.STRING)])
        def start(self, config):
            self.config = dict(config)
        def task_class(self):
            return CounterTask
        def task_configs(self, max_tasks):
            return [self.config]
        def stop(self):
            pass

To let a worker find it, name it in the entry point group `kafka_connect_mirror.plugins` of its
package (`counter = "my_package:CounterConnector"`), or put the package, module or wheel into a
directory of the worker's `plugin.path`. Configs then call it `my_package.CounterConnector`,
`CounterConnector` or `Counter`.

Raise `ConfigError` for a wrong config, `DataError` for a record that a converter or transformation
cannot handle, `RetriableError` if a retry may succeed, `TaskFailed` if the task cannot continue,
and `ConnectError` for any other error that users should read without a Python stack trace.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from connect.config.definition import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigProblem,
    ConfigType,
    Importance,
    ParsedConfig,
    Recommender,
    SecretStr,
    Width,
)
from connect.config.providers import ConfigProvider
from connect.config.validators import (
    AllOf,
    JavaPattern,
    NonEmptyString,
    NonNull,
    OneOf,
    OrNull,
    Range,
    Validator,
    ValidList,
)
from connect.data.converters.base import Converter, ConverterUse, HeaderConverter
from connect.data.record import ConnectRecord, Header, SinkRecord, SourceRecord
from connect.data.schema import Field, Schema, SchemaAndValue, Type
from connect.data.schema_builder import OPTIONAL as OPTIONAL_SCHEMAS
from connect.data.schema_builder import REQUIRED as REQUIRED_SCHEMAS
from connect.data.schema_builder import SchemaBuilder
from connect.data.struct import Struct
from connect.data.transforms.base import Predicate, Transformation
from connect.errors import ConfigError, ConnectError, DataError, RetriableError, TaskFailed
from connect.plugin import (
    AlteredOffset,
    Connector,
    ConnectorContext,
    ErrantRecordReporter,
    OffsetValue,
    RecordMetadata,
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceOffset,
    SourcePartition,
    SourceTask,
    TaskContext,
    TopicPartition,
    TransactionContext,
    TransferTask,
)
from connect.plugin.rest_extension import (
    ConnectClusterDetails,
    ConnectClusterState,
    ConnectorHealth,
    ConnectorState,
    ConnectRestExtension,
    ConnectRestExtensionContext,
    TaskState,
)
from connect.runtime.plugins.override_policy import (
    ClientKind,
    ConnectorClientConfigOverridePolicy,
    OverrideRequest,
)

__all__ = [
    "OPTIONAL_SCHEMAS",
    "REQUIRED",
    "REQUIRED_SCHEMAS",
    "AllOf",
    "AlteredOffset",
    "ClientKind",
    "ConfigDef",
    "ConfigError",
    "ConfigKey",
    "ConfigProblem",
    "ConfigProvider",
    "ConfigType",
    "ConnectClusterDetails",
    "ConnectClusterState",
    "ConnectError",
    "ConnectRecord",
    "ConnectRestExtension",
    "ConnectRestExtensionContext",
    "Connector",
    "ConnectorClientConfigOverridePolicy",
    "ConnectorContext",
    "ConnectorHealth",
    "ConnectorState",
    "Converter",
    "ConverterUse",
    "DataError",
    "ErrantRecordReporter",
    "Field",
    "Header",
    "HeaderConverter",
    "Importance",
    "JavaPattern",
    "NonEmptyString",
    "NonNull",
    "OffsetValue",
    "OneOf",
    "OrNull",
    "OverrideRequest",
    "ParsedConfig",
    "Predicate",
    "Range",
    "Recommender",
    "RecordMetadata",
    "RetriableError",
    "Schema",
    "SchemaAndValue",
    "SchemaBuilder",
    "SecretStr",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceOffset",
    "SourcePartition",
    "SourceRecord",
    "SourceTask",
    "Struct",
    "TaskContext",
    "TaskFailed",
    "TaskState",
    "TopicPartition",
    "TransactionContext",
    "TransferTask",
    "Transformation",
    "Type",
    "ValidList",
    "Validator",
    "Width",
]


class SourceConnector(Connector):
    """A connector with source tasks.

    A `SourceTask` returns records to the worker; a `TransferTask` copies data by itself.
    """

    @classmethod
    def connector_type(cls) -> Literal["source", "sink"]:
        return "source"

    @abstractmethod
    def task_class(self) -> type[SourceTask] | type[TransferTask]: ...
