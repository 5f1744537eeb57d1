"""A tree as a source: a directory, or an archive that is unpacked for it, as one commit to trunk."""

from vcsbench.sources.tree.source import ArchiveSource, DirectorySource

__all__ = ["ArchiveSource", "DirectorySource"]
