"""The generated sources: histories made from a documented model, the same bytes each time."""

from vcsbench.sources.generated.source import GeneratedSource

__all__ = ["GeneratedSource"]
