"""Whether copies lie interleaved, shown by the extents of their files on a real file system."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from shards import set_shard_size
from vcsbench import sources
from vcsbench.prepare import layout
from vcsbench.prepare.copies import CopyJob, interleave
from vcsbench.prepare.loader import load_source
from vcsbench.storages.extents import first_extent
from vcsbench.subjects import fsfs

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.003, "seed": 1}
SHARD = 20


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of 138 revisions, and the same with its 6 shards packed."""
    into = tmp_path_factory.mktemp("loaded")
    load_source(sources.open_source("ruby", SMALL), [("f7", "nopack")], into)
    small = into / "f7.pack"
    fsfs.create(small, "f7")
    set_shard_size(small, SHARD)
    dump = subprocess.run(
        ["svnadmin", "dump", "-q", into / "f7.nopack"], capture_output=True, check=True
    )
    subprocess.run(["svnadmin", "load", "-q", small], input=dump.stdout, check=True)
    fsfs.run_svnadmin("pack", "-q", small)
    return into


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of its own: where files lie on one that others write to, chance has a say in."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("takes root and mkfs.ext4 to make a file system")
    image, path = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(512 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    path.mkdir()
    done = subprocess.run(["mount", "-o", "loop", image, path], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no loop device can be mounted here: {done.stderr}")
    yield path
    subprocess.run(["umount", path], check=True)


def interleaved(loaded: Path, disk: Path, names: Sequence[str]) -> None:
    """Make copies side by side."""
    work = disk / "work"
    work.mkdir(exist_ok=True)
    jobs = [
        CopyJob(source, disk / name, fsfs.list_files(source))
        for name in names
        for source in [loaded / name.rpartition(".")[0]]
    ]
    interleave(jobs, work, 0, 1)
    written(disk)


def written(disk: Path) -> None:
    """A file gets its place when it is written to the device."""
    subprocess.run(["sync", "-f", disk], check=True)


ALL = [f"f7.{packing}.{number}" for packing in ("nopack", "pack") for number in (1, 2, 3)]


def proof(disk: Path, names: Sequence[str] = ALL) -> dict[str, Any]:
    return layout.prove_interleaving({name: disk / name for name in names})


def test_copies_made_side_by_side_lie_so(loaded: Path, disk: Path) -> None:
    interleaved(loaded, disk, ALL)
    found = proof(disk)
    assert found["verdict"] == "interleaved" and found["apart"] == [], found
    same, other = found["same_step_bytes"], found["other_step_bytes"]
    assert same < other / 4
    assert re.match(
        r"lie interleaved: the same revision .* is \d+ KiB away", str(found["sentence"])
    )


def test_copies_made_one_after_another_are_found_to_be_apart(loaded: Path, disk: Path) -> None:
    for name in ALL:
        shutil.copytree(loaded / name.rpartition(".")[0], disk / name)
        written(disk)
    found = proof(disk)
    # Six packed shards are few, and where they lie is in part chance.
    assert found["verdict"] in ("apart", "partly") and {*ALL[:3]} <= {*found["apart"]}, found
    found = proof(disk, ALL[:3])
    assert found["verdict"] == "apart" and "NOT lie interleaved" in str(found["sentence"])


def test_a_copy_made_later_is_named(loaded: Path, disk: Path) -> None:
    interleaved(loaded, disk, [name for name in ALL if name != "f7.nopack.2"])
    interleaved(loaded, disk, ["f7.nopack.2"])
    found = proof(disk)
    assert (found["verdict"], found["apart"]) == ("partly", ["f7.nopack.2"]), found


def test_extents_are_those_that_filefrag_shows(disk: Path) -> None:
    if not shutil.which("filefrag"):
        pytest.skip("not installed: filefrag")
    path = disk / "file"
    path.write_bytes(random.Random(1).randbytes(300_000))
    assert first_extent(path) is None, "it is not written yet"
    written(disk)
    found = first_extent(path)
    said = subprocess.run(
        ["filefrag", "-b1", "-v", path], capture_output=True, text=True, check=True
    ).stdout
    row = re.search(r"^ *0: +0\.\. *\d+: +(\d+)\.\. *\d+: +(\d+):", said, re.MULTILINE)
    assert row and found and found[1:3] == (int(row[1]), int(row[2]))


def test_an_empty_file_has_no_extent_and_tmpfs_cannot_be_asked(loaded: Path, disk: Path) -> None:
    (disk / "empty").touch()
    assert first_extent(disk / "empty") is None
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        shutil.copytree(loaded / "f7.nopack", f"{memory}/a")
        found = layout.prove_interleaving({"a": Path(memory, "a"), "b": Path(memory, "a")})
    assert found[
        "verdict"
    ] == "unknown" and "cannot be asked whether they lie interleaved: tmpfs does not report" in str(
        found
    )


def places(order: Sequence[tuple[str, int]]) -> list[layout.Position]:
    """Files of a copy and revision each, in the order in which they lie."""
    at = [(copy, ("revision", r), i * 4096) for i, (copy, r) in enumerate(order)]
    random.Random(1).shuffle(at)
    return at


def test_the_measure() -> None:
    def verdict(order: Sequence[tuple[str, int]]) -> tuple[str, list[str]]:
        found = layout.judge_layout(places(order))
        return found["verdict"], found["apart"]

    side_by_side = [(copy, r) for r in range(20) for copy in "abc"]
    in_turn = [(copy, r) for copy in "abc" for r in range(20)]
    assert verdict(side_by_side) == ("interleaved", [])
    assert verdict(in_turn) == ("apart", ["a", "b", "c"])
    at_random = random.Random(2).sample(side_by_side, len(side_by_side))
    assert verdict(at_random) == ("apart", ["a", "b", "c"])
    two_batches = [(c, r) for batch in ("abc", "de") for r in range(20) for c in batch]
    assert verdict(two_batches) == ("partly", ["d", "e"])
    assert verdict([("a", r) for r in range(20)]) == ("alone", [])
    assert verdict([("a", 0), ("b", 0)]) == verdict([]) == ("unknown", [])
