"""vcsbench: benchmarks of version-control servers."""

__version__ = "0.1.0"
