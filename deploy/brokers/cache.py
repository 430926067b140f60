"""Where downloads are kept between runs: the user's cache, shared with what else we run."""

from connect.cache_directory import CACHE_VARIABLE, cache_directory

__all__ = ["CACHE_VARIABLE", "cache_directory"]
