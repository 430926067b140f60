"""The compiled parts of the package. Everything else about it is in pyproject.toml.

Without a compiler the package is built without them and works, more slowly. `PURE=1` builds without
it where there is a compiler, for a wheel that installs everywhere.
"""

import os

from setuptools import Extension, setup


def _compiled(package: str, sources: tuple[str, ...], headers: tuple[str, ...] = ()) -> Extension:
    folder = f"{package.replace('.', '/')}/native"
    return Extension(
        f"{package}._native",
        sources=[f"{folder}/{name}.c" for name in sources],
        depends=[f"{folder}/{name}.h" for name in headers],
        extra_compile_args=["-O3", "-std=c11"],
        py_limited_api=True,
        optional=True,
    )


NATIVE = [
    _compiled(
        "connect.protocol",
        ("module", "scan", "merge", "batch", "crc"),
        ("batch", "crc", "functions"),
    ),
    _compiled("connect.data", ("module", "hash_order", "read_json", "write_json"), ("functions",)),
]

PURE = os.environ.get("PURE") == "1"

setup(
    ext_modules=[] if PURE else NATIVE,
    options={} if PURE else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
