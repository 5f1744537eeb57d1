"""Dump files as sources."""

from vcsbench.sources.dump.source import DumpSource, is_dump, why_no_dump

__all__ = ["DumpSource", "is_dump", "why_no_dump"]
