"""Read the shape of a bare git repository from its own files, without git: its packs, indices and refs."""

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from vcsbench.storages.folder_states import join, walk
from vcsbench.systems.base import read_commit_count

OBJECTS = Path("objects")
PACKS = OBJECTS / "pack"
GRAPH = OBJECTS / "info" / "commit-graph"
GRAPHS = OBJECTS / "info" / "commit-graphs"
MULTI_PACK_INDEX = "multi-pack-index"
# The chunk of a commit-graph that has the filters of changed paths.
_PATHS_CHUNK = b"BDAT"
# A pack index of version 2 has two words in front of 256 sums: the last one is the number of objects.
_INDEX_COUNT = 8 + 255 * 4
# The setting with which git 2.44 or later sends parts of all packs of a multi-pack index as they are.
REUSE_KEY, REUSE_VALUE = "pack.allowPackReuse", "multi"
_REUSE_SETTING = re.compile(
    rf"^\s*{REUSE_KEY.partition('.')[2]}\s*=\s*{REUSE_VALUE}\s*$", re.IGNORECASE | re.MULTILINE
)
# With SHA-1 and SHA-256.
REF_SIZES = (40 + 1, 64 + 1)


class GitShape(NamedTuple):
    """A repository by its own files: packs (files with many objects), indices and refs.

    `packed_objects` has the number of objects of each pack, the smallest first. `reuses_packs` is True with
    the setting REUSE_KEY. `loose_refs` is the number of refs that are files, `packed_refs` that of refs in
    packed-refs. With `has_reftable`, both are 0.
    """

    commits: int
    packed_objects: tuple[int, ...]
    loose_objects: int
    has_bitmap: bool
    has_midx: bool
    has_midx_bitmap: bool
    reuses_packs: bool
    has_graph: bool
    has_changed_paths: bool
    has_reftable: bool
    loose_refs: int
    packed_refs: int

    @property
    def packs(self) -> int:
        return len(self.packed_objects)

    @property
    def refs(self) -> int:
        return self.loose_refs + self.packed_refs


def read_git_shape(path: Path) -> GitShape:
    """Read the shape of a bare repository. Raise OSError, ValueError or UserError if it cannot be read."""
    # Names in the folder of packs are, for example, pack-1a2b.pack, pack-1a2b.idx (its index),
    # pack-1a2b.bitmap, and for all packs multi-pack-index (midx) and multi-pack-index-1a2b.bitmap.
    names = os.listdir(path / PACKS)
    object_counts = [_count_objects(path / PACKS / name) for name in names if name.endswith(".idx")]
    packs = [name for name in names if name.endswith(".pack")]
    if len(packs) != len(object_counts):
        raise ValueError(f"it has {len(packs)} packs and {len(object_counts)} indices of packs")
    bitmaps = [name for name in names if name.endswith(".bitmap")]
    midx_bitmaps = [name for name in bitmaps if name.startswith(MULTI_PACK_INDEX)]
    pack_bitmaps = set(bitmaps).difference(midx_bitmaps)

    # A loose object is a file in a folder, which is named by the first two digits of the object.
    loose_objects = 0
    for name in os.listdir(path / OBJECTS):
        if re.fullmatch("[0-9a-f]{2}", name):
            loose_objects += len(os.listdir(path / OBJECTS / name))
    # The commit-graph is one file, or a chain of several files.
    graphs = list((path / GRAPHS).glob("graph-*.graph"))
    if (path / GRAPH).exists():
        graphs.append(path / GRAPH)
    has_reftable = (path / "reftable").exists()
    # The refs in a reftable are not counted: its files have another format.
    loose_refs: set[str] = set()
    packed_refs: set[str] = set()
    if not has_reftable:
        loose_refs = _loose_refs(path)
        # git reads the loose ref if a packed ref has the same name.
        packed_refs = _packed_refs(path) - loose_refs
    return GitShape(
        commits=read_commit_count(path),
        packed_objects=tuple(sorted(object_counts)),
        loose_objects=loose_objects,
        has_bitmap=bool(pack_bitmaps),
        has_midx=MULTI_PACK_INDEX in names,
        has_midx_bitmap=bool(midx_bitmaps),
        reuses_packs=_REUSE_SETTING.search((path / "config").read_text()) is not None,
        has_graph=bool(graphs),
        has_changed_paths=bool(graphs) and all(map(_has_changed_paths, graphs)),
        has_reftable=has_reftable,
        loose_refs=len(loose_refs),
        packed_refs=len(packed_refs),
    )


def _count_objects(index: Path) -> int:
    """Return the number of objects of a pack, from its index. Raise ValueError if the index is too short."""
    with index.open("rb") as file:
        file.seek(_INDEX_COUNT)
        count = file.read(4)
    if len(count) != 4:
        raise ValueError(f"{index.name} is too short")
    return int.from_bytes(count, "big")


def _has_changed_paths(graph: Path) -> bool:
    """Return True if a file of the commit-graph has the filters of changed paths in its table of chunks."""
    with graph.open("rb") as file:
        # CGPH, and a byte each: the version, the kind of digests, the number of chunks, and of earlier files.
        chunks = file.read(8)[6]
        # An entry has 12 bytes: 4 with the name of the chunk, and 8 with its place in the file.
        table = file.read(12 * chunks)
    return any(table[start : start + 4] == _PATHS_CHUNK for start in range(0, len(table), 12))


def _loose_refs(path: Path) -> set[str]:
    """Return the names of the refs that are files. A symbolic ref, which is always a file, does not count."""
    refs = set()
    for folder, entries in walk(path / "refs"):
        for name, status in entries:
            ref = f"refs/{join(folder, name)}"
            # The content is an object's name and a line end. To read so many files would take too long.
            is_plain = stat.S_ISREG(status.st_mode) and status.st_size in REF_SIZES
            # Most symbolic refs are refs/remotes/*/HEAD. By chance, one may have this size, too.
            if is_plain and name == "HEAD":
                is_plain = not (path / ref).read_bytes().startswith(b"ref:")
            if is_plain:
                refs.add(ref)
    return refs


def _packed_refs(path: Path) -> set[str]:
    """Return the names of the refs in the file packed-refs; an empty set without the file."""
    try:
        text = (path / "packed-refs").read_bytes()
    except FileNotFoundError:
        return set()
    refs = set()
    for line in text.splitlines():
        # `#` begins the header, and `^` the commit of the annotated tag in the line before.
        if not line.startswith((b"#", b"^")):
            refs.add(os.fsdecode(line.partition(b" ")[2]))
    return refs
