"""Git repositories as sources."""

from vcsbench.sources.git.repository import work_tree_above
from vcsbench.sources.git.source import GitSource, is_repository

__all__ = ["GitSource", "is_repository", "work_tree_above"]
