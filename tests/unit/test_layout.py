"""The layout of copies on a real file system: interleaved or apart."""

import random
import re
import shutil
import subprocess
from itertools import pairwise

import pytest

from project import mounted_ext4, needs
from shards import set_shard_size
from vcsbench import sources
from vcsbench.prepare.copies import CopyJob, interleave
from vcsbench.prepare.layout import judge_layout, prove_interleaving
from vcsbench.prepare.loader import load_source
from vcsbench.storages.extents import first_extent
from vcsbench.storages.folder_states import StoredFile
from vcsbench.systems import SUBVERSION, fsfs

pytestmark = needs("svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.003, "seed": 1}
ALL = [f"f7.{packing}.{number}" for packing in ("nopack", "pack") for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    into = tmp_path_factory.mktemp("loaded")
    load_source(sources.open_source("ruby", SMALL), "f7", into)
    packed = into / "f7.pack"
    fsfs.create(packed, "f7")
    # 28 shards. The places of a few shards depend on chance: each processor core has a region of its own.
    set_shard_size(packed, 5)
    dump = subprocess.check_output(["svnadmin", "dump", "-q", into / "f7.nopack"])
    subprocess.run(["svnadmin", "load", "-q", packed], input=dump, check=True)
    fsfs.run_svnadmin("pack", "-q", packed)
    return into


@pytest.fixture
def disk(tmp_path):
    """An ext4 of its own: on a shared one, other writers change the layout."""
    with mounted_ext4(tmp_path / "image", tmp_path / "disk", 512) as path:
        yield path


def make_interleaved(loaded, disk, names):
    origins = {name: loaded / name.rpartition(".")[0] for name in names}
    jobs = [CopyJob(o, disk / name, fsfs.list_files(o)) for name, o in origins.items()]
    interleave(jobs, disk, fragmentation_kib=0, seed=1)
    flush(disk)


def flush(disk):
    subprocess.run(["sync", "-f", disk], check=True)


def proof(disk, names=ALL):
    return prove_interleaving({disk / name: SUBVERSION.store for name in names})


def test_prove_interleaving_copies_made_together_are_interleaved(loaded, disk):
    make_interleaved(loaded, disk, ALL)
    result = proof(disk)
    assert (result["verdict"], result["apart"]) == ("interleaved", []), result
    assert re.search(r"\d KiB away, another .*\d MiB \(medians of \d+", result["sentence"]), result


def test_prove_interleaving_copies_made_in_turn_are_apart(loaded, disk):
    for name in ALL:
        shutil.copytree(loaded / name.rpartition(".")[0], disk / name)
        flush(disk)
    result = proof(disk)
    # The places of packed shards depend partly on chance.
    assert result["verdict"] in ("apart", "partly"), result
    assert {*ALL[:3]} <= {*result["apart"]}, result
    assert proof(disk, ALL[:3])["verdict"] == "apart"


def test_prove_interleaving_copy_made_later_is_named(loaded, disk):
    make_interleaved(loaded, disk, [name for name in ALL if name != "f7.nopack.2"])
    make_interleaved(loaded, disk, ["f7.nopack.2"])
    result = proof(disk)
    assert (result["verdict"], result["apart"]) == ("partly", ["f7.nopack.2"]), result


@needs("filefrag")
def test_first_extent_equals_filefrag(disk):
    path = disk / "file"
    path.write_bytes(random.Random(1).randbytes(300_000))
    (disk / "empty").touch()
    assert first_extent(path) is None
    flush(disk)
    extent = first_extent(path)
    text = subprocess.check_output(["filefrag", "-b1", "-v", path], text=True)
    row = re.search(r"^ *0: +0\.\. *\d+: +(\d+)\.\. *\d+: +(\d+):", text, re.MULTILINE)
    assert row and extent and extent[1:3] == (int(row[1]), int(row[2]))
    assert first_extent(disk / "empty") is None


SIDE_BY_SIDE = [(copy, r) for r in range(20) for copy in "abc"]
PACKED = [(copy, r) for r in range(20) for copy in "pq"]


@pytest.mark.parametrize(
    ("order", "verdict", "apart"),
    [
        (SIDE_BY_SIDE, "interleaved", []),
        ([*SIDE_BY_SIDE, *PACKED], "interleaved", []),
        ([(copy, r) for copy in "abc" for r in range(20)], "apart", ["a", "b", "c"]),
        (random.Random(2).sample(SIDE_BY_SIDE, 60), "apart", ["a", "b", "c"]),
        ([(c, r) for b in ("abc", "de") for r in range(20) for c in b], "partly", ["d", "e"]),
        ([*SIDE_BY_SIDE, *sorted(PACKED)], "partly", ["p", "q"]),
        ([*SIDE_BY_SIDE, ("p", 0), ("q", 0)], "interleaved", []),
        ([("a", r) for r in range(20)], "alone", []),
        ([("a", 0), ("b", 0)], "unknown", []),
        ([("a", 0), ("a", 1), ("b", 2), ("b", 3)], "unknown", []),
        ([], "unknown", []),
    ],
    ids=[
        *("side by side", "packed and others", "in turn", "at random", "two batches"),
        *("packed in turn", "one shard", "one copy", "one revision", "no shared revision", "none"),
    ],
)
def test_judge_layout_follows_positions(order, verdict, apart):
    kinds = {True: {}, False: {}}
    for i, (copy, r) in enumerate(order):
        kinds[copy in "pq"].setdefault(copy, {})[r] = i * 4096
    result = judge_layout([*kinds.values()])
    assert (result["verdict"], result["apart"]) == (verdict, apart)


def test_interleave_large_files_lie_in_the_order_of_their_steps(tmp_path, disk):
    """The sizes differ like the shards of two formats."""
    jobs, rng = [], random.Random(1)
    for name, size in (("a", 3 << 20), ("b", 3 << 20), ("c", 7 << 18), ("d", 7 << 18)):
        (tmp_path / name).mkdir()
        files = [StoredFile(n, f"{n}", size + n * 9973, 0o644) for n in range(8)]
        for file in files:
            (tmp_path / name / file.name).write_bytes(rng.randbytes(file.size))
        jobs.append(CopyJob(tmp_path / name, disk / name, files))
    interleave(jobs, disk, fragmentation_kib=0, seed=1)
    flush(disk)
    starts = [[first_extent(disk / name / f"{n}").start for name in "abcd"] for n in range(8)]
    ends = [(min(step), max(step)) for step in starts]
    assert all(last < first for (_, last), (first, _) in pairwise(ends)), starts
