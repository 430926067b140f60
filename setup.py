"""The compiled part of the package. Everything else about it is in pyproject.toml.

Without a compiler the package is built without it and works, more slowly. `PURE=1` builds without
it where there is a compiler, for a wheel that installs everywhere.
"""

import os

from setuptools import Extension, setup

NATIVE = Extension(
    "connect.protocol._native",
    sources=[
        f"connect/protocol/native/{name}.c" for name in ("module", "scan", "merge", "batch", "crc")
    ],
    depends=[f"connect/protocol/native/{name}.h" for name in ("batch", "crc", "functions")],
    extra_compile_args=["-O3", "-std=c11"],
    py_limited_api=True,
    optional=True,
)

PURE = os.environ.get("PURE") == "1"

setup(
    ext_modules=[] if PURE else [NATIVE],
    options={} if PURE else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
