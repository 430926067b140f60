"""kafka-python's clients are imported by those who use them, and by nobody else."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

_RUN_S = 60


def run(program: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_protocol_comes_without_the_clients() -> None:
    printed = run(
        """
        import sys
        import connect.clients.wire.message_classes
        print(sorted(name for name in sys.modules if name.startswith("kafka.producer")))
        """
    )
    assert printed == "[]\n"


@pytest.mark.parametrize(
    "use",
    [
        "from kafka import KafkaConsumer as used",
        "import kafka; used = kafka.KafkaConsumer",
        "from kafka import *; used = KafkaConsumer",
        "import kafka.consumer; used = kafka.consumer.KafkaConsumer",
        "from kafka.consumer import KafkaConsumer as used",
        "from kafka import consumer; used = consumer.KafkaConsumer",
        "import kafka; used = kafka.consumer.KafkaConsumer",
    ],
)
def test_a_plugin_imports_a_client_as_it_always_did(use: str) -> None:
    printed = run(
        f"""
        import connect
        {use}
        from kafka.consumer.group import KafkaConsumer
        assert used is KafkaConsumer
        import kafka
        print(kafka.KafkaProducer.__name__, kafka.__version__ == kafka.version.__version__)
        """
    )
    assert printed == "KafkaProducer True\n"


def test_threads_may_ask_at_once() -> None:
    printed = run(
        """
        import threading
        import connect
        import kafka
        found, begin = [], threading.Barrier(8)

        def ask(number):
            begin.wait(30)
            found.append(kafka.KafkaProducer if number % 2 else kafka.KafkaConsumer)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        print(len(found), len(set(found)))
        """
    )
    assert printed == "8 2\n"


def test_a_name_that_is_missing_is_missing() -> None:
    printed = run(
        """
        import connect
        import kafka
        try:
            kafka.Nothing
        except AttributeError as error:
            print(error)
        try:
            from kafka import Nothing
        except ImportError as error:
            print(type(error).__name__, "Nothing" in str(error))
        """
    )
    assert printed == "module 'kafka' has no attribute 'Nothing'\nImportError True\n"
