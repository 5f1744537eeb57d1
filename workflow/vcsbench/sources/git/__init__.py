"""Git repositories as sources."""

from vcsbench.sources.git.source import GitSource, is_repository

__all__ = ["GitSource", "is_repository"]
