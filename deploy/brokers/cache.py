"""The download cache of this user, shared with the project's other downloads."""

from connect.cache_directory import CACHE_VARIABLE, cache_directory

__all__ = ["CACHE_VARIABLE", "cache_directory"]
