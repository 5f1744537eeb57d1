"""Loading, packing and copying real repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shards import set_shard_size
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.prepare import copies
from vcsbench.prepare.copies import CopyJob, copy_and_compare, interleave, make_copies
from vcsbench.prepare.loader import choose_staging, load_source
from vcsbench.sources import SizeEstimate
from vcsbench.sources.generated import GeneratedSource
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.repository import Variant, copy_path, metadata_file

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}
VARIANTS = [("f6", "nopack"), ("f6", "pack"), ("f7", "nopack"), ("f8", "pack")]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small source, loaded in three formats."""
    into = tmp_path_factory.mktemp("loaded")
    facts = load_source(sources.open_source("ruby", SMALL), VARIANTS, into)
    assert facts["revisions"] == 23
    return into


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A repository of 30 revisions with shards of 10, packed."""
    path = tmp_path / "packed"
    fsfs.create(path, "f7")
    set_shard_size(path, 10)
    source = sources.open_source("ruby", {**SMALL, "scale": 0.00065})
    with subprocess.Popen(["svnadmin", "load", "-q", path], stdin=subprocess.PIPE) as process:
        assert process.stdin
        source.write(process.stdin)
    fsfs.run_svnadmin("pack", "-q", path)
    return path


def test_load_makes_valid_repositories_of_each_variant(loaded: Path) -> None:
    assert sorted(path.name for path in loaded.iterdir()) == sorted(f"{f}.{p}" for f, p in VARIANTS)
    numbers = {"f6": "6", "f7": "7", "f8": "8"}
    for fmt, packing in VARIANTS:
        path = loaded / f"{fmt}.{packing}"
        assert (path / "db" / "format").read_text().splitlines()[0] == numbers[fmt]
        assert fsfs.youngest(path) == 23
        subprocess.run(["svnadmin", "verify", "-q", path], check=True)


def test_load_upgraded_variant_keeps_its_layout(loaded: Path, tmp_path: Path) -> None:
    variants = [("f6-to-f8", "pack"), ("f6-to-f8", "nopack")]
    load_source(sources.open_source("ruby", SMALL), variants, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f6-to-f8.nopack", "f6-to-f8.pack"]
    upgraded = tmp_path / "f6-to-f8.nopack"
    lines = (upgraded / "db" / "format").read_text().splitlines()
    assert lines == ["8", "layout sharded 1000", "addressing physical"]
    for number in range(24):
        revision = f"db/revs/0/{number}"
        assert (upgraded / revision).read_bytes() == (loaded / "f6.nopack" / revision).read_bytes()


def test_missing_copies_loaded_repository_is_no_upgraded_variant(
    loaded: Path, tmp_path: Path
) -> None:
    variants = [Variant("ruby", "f6-to-f8", "pack", "1")]
    (tmp_path / "own").mkdir()
    load_source(sources.open_source("ruby", SMALL), [("f6-to-f8", "pack")], tmp_path / "own")
    record = {"path": str(tmp_path / "own"), "identity": "1", "tree": "", "folder": "", "notes": []}
    (tmp_path / "disk").mkdir()
    place = WorkDir(tmp_path / "disk", tmp_path)
    make_copies(place, variants, 1, {"ruby": record}, 0, 1)
    assert not copies.missing_copies(place.path, variants, 1)
    copy = copy_path(place.path, variants[0].name, 1)
    shutil.rmtree(copy)
    shutil.copytree(loaded / "f8.pack", copy)
    (why,) = copies.missing_copies(place.path, variants, 1).values()
    assert "addressed logically" in why


def test_load_failed_has_error_of_svnadmin(tmp_path: Path) -> None:
    class Broken(sources.Source):
        kind = "dump"

        def write(self, out: Any) -> Any:
            out.write(b"this is no dump stream\n")
            return sources.Facts()

        def place(self, revision: int) -> str:
            return f"number {revision}"

    error = r"load into .*f7.nopack failed after revision 0 \(number 1\): svnadmin: E"
    with pytest.raises(UserError, match=error):
        load_source(Broken(), [("f7", "nopack")], tmp_path)  # type: ignore[arg-type]


def test_load_with_missing_revisions_raises(tmp_path: Path) -> None:
    class Shorter(GeneratedSource):
        def write(self, out: Any) -> sources.Facts:
            return sources.Facts(super().write(out).revisions + 1)

    source = Shorter("it", {"source": "generated", "profile": "ruby", "scale": 0.0001}, "")
    with pytest.raises(UserError, match="loaded 5 of 6 revisions"):
        load_source(source, [("f7", "nopack")], tmp_path)


def test_load_into_another_format_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fsfs.RELEASES, "f6", "1.9")
    with pytest.raises(UserError, match="was loaded, but it is of format f7, not of f6"):
        load_source(sources.open_source("ruby", SMALL), [("f6", "nopack")], tmp_path)


def test_list_files_orders_by_revision(packed: Path) -> None:
    listed = fsfs.list_files(packed)
    assert fsfs.packed_shards(packed) == 3
    at = {file.name: file.revision for file in listed}
    assert at["db/revs/0.pack/pack"] == 9 and at["db/revs/2.pack/pack"] == 29
    assert at["db/revs/3/30"] == 30
    assert at["db/current"] == at["format"] == fsfs.AFTER_ALL_REVISIONS
    assert [file.revision for file in listed] == sorted(at.values())


def test_interleave_writes_copies_in_turn_and_equal(
    loaded: Path, packed: Path, tmp_path: Path
) -> None:
    written = []
    real_open, real_rename = os.open, os.rename

    def spy(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_CREAT:
            written.append(Path(path))
        return real_open(path, flags, *rest)

    def spy_on_move(made: Any, destination: Any) -> None:
        written[-1] = Path(destination)
        real_rename(made, destination)

    plain = loaded / "f7.nopack"
    jobs = [
        CopyJob(source, tmp_path / name, fsfs.list_files(source))
        for name, source in [("a", plain), ("b", plain), ("c", packed)]
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", spy)
        patch.setattr(os, "rename", spy_on_move)
        interleave(jobs, tmp_path, 0, seed=1)
    order = [path.relative_to(tmp_path) for path in written if "revs" in path.parts]
    names = [f"{path.parts[0]} {path.parts[-1]}" for path in order]
    assert names[:4] == ["a 0", "b 0", "a 1", "b 1"]
    assert names.index("b 9") < names.index("c pack") < names.index("a 10")
    for copying in jobs:
        subprocess.run(["diff", "-r", copying.source, copying.destination], check=True)
        subprocess.run(["svnadmin", "verify", "-q", copying.destination], check=True)


def test_interleave_writes_spacers_between_revisions(loaded: Path, tmp_path: Path) -> None:
    source = loaded / "f7.nopack"
    spacers = tmp_path / "spacers"
    spacers.mkdir()
    interleave([CopyJob(source, tmp_path / "a", fsfs.list_files(source))], spacers, 4, seed=1)
    sizes = [path.stat().st_size for path in spacers.iterdir()]
    assert len(sizes) >= 24 and 2048 < sum(sizes) / len(sizes) < 6144


def test_copy_and_compare_damaged_copy_raises(
    loaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = loaded / "f7.nopack"

    def damaged(*arguments: Any) -> dict[Path, str]:
        digests = interleave(*arguments)
        path = tmp_path / "a" / "db" / "revs" / "0" / "7"
        path.chmod(0o644)
        content = bytearray(path.read_bytes())
        content[3] ^= 1
        path.write_bytes(content)
        return digests

    monkeypatch.setattr("vcsbench.prepare.copies.interleave", damaged)
    with pytest.raises(OSError, match="is not the same as"):
        copy_and_compare([CopyJob(source, tmp_path / "a", fsfs.list_files(source))], tmp_path, 0, 1)


def made(place: WorkDir, loaded: Path, numbers: int = 2, **facts: Any) -> list[Variant]:
    """Make copies of two variants."""
    variants = [Variant("ruby", fmt, "nopack", "i1") for fmt in ("f6", "f7")]
    record = {
        "identity": "i1",
        "path": str(loaded),
        "tree": "trunk",
        "folder": "trunk/lib",
        "notes": [],
    }
    record |= facts
    make_copies(place, variants, numbers, {"ruby": record}, 0, 1)
    return variants


def test_make_copies_includes_spacers_in_space(loaded: Path, tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "checkout")
    variants = [Variant("ruby", "f7", "nopack", "i1")]
    record = {"path": str(loaded), "identity": "i1", "tree": "", "folder": "", "notes": []}
    # A terabyte for each of 24 revisions.
    with pytest.raises(
        UserError, match=r"spacers of 2[0-9.]* TiB included.*lower `fragmentation_kib`"
    ):
        make_copies(place, variants, 1, {"ruby": record}, 1e12 / 1024, 1)
    assert len(copies.missing_copies(place.path, variants, 1)) == 1


def test_make_copies_makes_missing_copies_only(loaded: Path, tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "checkout")
    variants = made(place, loaded)
    assert not copies.missing_copies(place.path, variants, 2)
    other = copy_path(place.path, "ruby.f6.nopack", 1) / "db" / "current"
    before = other.stat().st_ino
    shutil.rmtree(copy_path(place.path, "ruby.f7.nopack", 2))
    assert list(copies.missing_copies(place.path, variants, 2)) == [(variants[1], 2)]
    made(place, Path("/vanished"))  # made from another copy
    assert not copies.missing_copies(place.path, variants, 2) and other.stat().st_ino == before


def test_missing_copies_without_metadata_or_of_another_source(loaded: Path, tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "checkout")
    variants = made(place, loaded)
    metadata_file(copy_path(place.path, "ruby.f6.nopack", 2)).unlink()
    assert list(copies.missing_copies(place.path, variants, 2)) == [(variants[0], 2)]
    other = [Variant("ruby", "f6", "nopack", "i2")]
    assert len(copies.missing_copies(place.path, other, 2)) == 2


def test_make_copies_of_upgraded_staging_raises(loaded: Path, tmp_path: Path) -> None:
    upgraded = tmp_path / "loaded"
    shutil.copytree(loaded, upgraded)
    fsfs.run_svnadmin("upgrade", upgraded / "f6.nopack")
    place = WorkDir(tmp_path, tmp_path / "checkout")
    with pytest.raises(
        UserError, match=r"no copy of ruby.f6.nopack is intact, and the loaded repository"
    ):
        made(place, upgraded)
    assert not list(place.path.glob("repositories/ruby.*"))


def test_missing_copies_after_a_commit(loaded: Path, tmp_path: Path) -> None:
    place = WorkDir(tmp_path, tmp_path / "checkout")
    variants = made(place, loaded, 1)
    url = f"file://{copy_path(place.path, 'ruby.f6.nopack', 1)}/new"
    subprocess.run(["svn", "mkdir", "-q", "-m", "x", url], check=True)
    assert list(copies.missing_copies(place.path, variants, 1)) == [(variants[0], 1)]


ONE = SizeEstimate(revisions=0, repository_bytes=1 << 30)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[Path, int], list[WorkDir]]:
    """Three folders on separate devices with 10 GiB of free space each."""
    places = [WorkDir(tmp_path, f"/{name}") for name in "abc"]
    free = {place.path: 10 << 30 for place in places}
    monkeypatch.setattr(f"{choose_staging.__module__}.free_bytes", lambda path: free[path])
    monkeypatch.setattr(f"{choose_staging.__module__}._device", lambda place: hash(place.path))
    return free, places


def test_choose_staging_prefers_scratch_with_space(
    room: tuple[dict[Path, int], list[WorkDir]],
) -> None:
    free, (scratch, storage, _) = room
    assert choose_staging(ONE, 2, scratch, {storage: 6}) is scratch
    free[scratch.path] = 1 << 30
    assert choose_staging(ONE, 2, scratch, {storage: 6}) is storage
    with pytest.raises(UserError, match=r"about 12.0 GiB are needed .* and 10.0 GiB are free"):
        choose_staging(ONE, 3, scratch, {storage: 9})


def test_choose_staging_checks_each_storage(
    room: tuple[dict[Path, int], list[WorkDir]],
) -> None:
    free, (scratch, first, second) = room
    free[second.path] = 5 << 30
    with pytest.raises(UserError, match=rf"{second.path}: about 6.00 GiB are needed"):
        choose_staging(ONE, 2, scratch, {first: 6, second: 6})
    assert choose_staging(ONE, 2, scratch, {first: 6, second: 3}) is scratch
    free[scratch.path] = 0
    free[first.path] = 6 << 30
    assert choose_staging(ONE, 2, scratch, {first: 6, second: 3}) is second


def test_choose_staging_adds_space_of_one_device(
    room: tuple[dict[Path, int], list[WorkDir]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (scratch, first, second) = room
    monkeypatch.setattr(f"{choose_staging.__module__}._device", lambda place: 1)
    assert choose_staging(ONE, 2, scratch, {first: 4, second: 4}) is scratch
    with pytest.raises(UserError, match=r"about 11.0 GiB are needed"):
        choose_staging(ONE, 3, scratch, {first: 4, second: 4})
    with pytest.raises(UserError, match=r"about 12.0 GiB are needed"):
        choose_staging(ONE, 1, scratch, {first: 6, second: 6})
