"""The files of an archive, through Hadoop's file systems in Spark's JVM: whatever path Spark writes
to (`file:`, `hdfs:`, `s3a:`, ...), with the session's credentials.

For one thread at a time. Every call blocks as long as the file system does.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pyspark  # noqa: F401 - before its parts
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from connect.errors import RetriableError
from connectors.spark.errors import first_line

__all__ = ["ArchiveFiles", "FilesFailed"]


class FilesFailed(RetriableError):
    """The file system did not do what was asked. The message is its reason."""


class ArchiveFiles:
    """Files below one directory, named by their relative paths."""

    def __init__(self, session: SparkSession, root: str) -> None:
        self.session = session
        self._jvm = cast(Any, session._jvm)
        context = cast(Any, session.sparkContext._jsc)
        with self._errors("Opening", root):
            path = self._jvm.org.apache.hadoop.fs.Path(root)
            self._fs = path.getFileSystem(context.hadoopConfiguration())
            self._root = self._fs.makeQualified(path)
            self.root: str = str(self._root.toString())

    def path(self, name: str) -> str:
        """Return the whole path of a file, for Spark."""
        return f"{self.root.rstrip('/')}/{name}"

    def exists(self, name: str) -> bool:
        with self._errors("Looking for", name):
            return bool(self._fs.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if it does not exist."""
        with self._errors("Listing", folder):
            path = self._path(folder)
            if not self._fs.exists(path):
                return []
            return sorted(str(each.getPath().getName()) for each in self._fs.listStatus(path))

    def read(self, name: str) -> str:
        with self._errors("Reading", name):
            stream = self._fs.open(self._path(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def publish(self, name: str, text: str) -> bool:
        """Write a new file, which appears whole or not at all. Returns False if it exists."""
        with self._errors("Writing", name):
            path = self._path(name)
            if self._fs.exists(path):
                return False
            folder = path.getParent()
            draft = self._jvm.org.apache.hadoop.fs.Path(folder, f"_{uuid.uuid4().hex}")
            self._fs.mkdirs(folder)
            stream = self._fs.create(draft, False)
            try:
                stream.write(text.encode())
            finally:
                stream.close()
            return bool(self._fs.rename(draft, path))

    def move(self, name: str, to: str) -> None:
        """Move a file; the folder of `to` is created."""
        with self._errors("Moving", name):
            old, new = self._path(name), self._path(to)
            self._fs.mkdirs(new.getParent())
            if not self._fs.rename(old, new):
                raise FilesFailed(
                    f"Moving {self.path(name)} to {to} failed: the file system refused it"
                )

    def delete(self, name: str) -> None:
        """Delete a file or folder, if it exists."""
        with self._errors("Deleting", name):
            self._fs.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    @contextmanager
    def _errors(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except Py4JError as error:
            raise FilesFailed(f"{what} {name} failed: {first_line(error)}") from error
        except (ConnectionError, EOFError) as error:
            raise FilesFailed(f"{what} {name} failed: the Spark driver's JVM has ended") from error
