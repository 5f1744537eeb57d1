"""Loading, packing and copying real repositories."""

import shutil
import subprocess

import pytest

from shards import set_shard_size
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.prepare.copies import (
    CopyJob,
    copy_and_compare,
    interleave,
    make_copies,
    missing_copies,
)
from vcsbench.prepare.loader import load_source
from vcsbench.sources.generated import GeneratedSource
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.repository import Variant

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}
VARIANTS = [("f6", "nopack"), ("f6", "pack"), ("f7", "nopack"), ("f8", "pack")]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    into = tmp_path_factory.mktemp("loaded")
    facts = load_source(sources.open_source("ruby", SMALL), VARIANTS, into)
    assert facts["revisions"] == 23
    return into


@pytest.fixture
def packed(tmp_path):
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


def test_load_upgraded_variant_keeps_its_layout(loaded, tmp_path):
    variants = [("f6-to-f8", "pack"), ("f6-to-f8", "nopack")]
    load_source(sources.open_source("ruby", SMALL), variants, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f6-to-f8.nopack", "f6-to-f8.pack"]
    upgraded = tmp_path / "f6-to-f8.nopack"
    lines = (upgraded / "db" / "format").read_text().splitlines()
    assert lines == ["8", "layout sharded 1000", "addressing physical"]
    for number in range(24):
        revision = f"db/revs/0/{number}"
        assert (upgraded / revision).read_bytes() == (loaded / "f6.nopack" / revision).read_bytes()
    assert "addressed logically" in fsfs.mismatch(loaded / "f8.pack", "f6-to-f8", "pack")


def test_load_failed_has_error_of_svnadmin(tmp_path):
    class Broken(sources.Source):
        kind = "dump"

        def write(self, out):
            out.write(b"this is no dump stream\n")
            return sources.Facts()

        def place(self, revision):
            return f"number {revision}"

    error = r"load into .*f7.nopack failed after revision 0 \(number 1\): svnadmin: E"
    with pytest.raises(UserError, match=error):
        load_source(Broken(), [("f7", "nopack")], tmp_path)


def test_load_with_another_result_raises(tmp_path, monkeypatch):
    class Shorter(GeneratedSource):
        def write(self, out):
            return sources.Facts(super().write(out).revisions + 1)

    source = Shorter("it", {"source": "generated", "profile": "ruby", "scale": 0.0001}, "")
    with pytest.raises(UserError, match="loaded 5 of 6 revisions"):
        load_source(source, [("f7", "nopack")], tmp_path)
    monkeypatch.setitem(fsfs.RELEASES, "f6", "1.9")
    with pytest.raises(UserError, match="was loaded, but it is of format f7, not of f6"):
        load_source(sources.open_source("ruby", SMALL), [("f6", "nopack")], tmp_path)


def test_interleave_makes_equal_copies(loaded, packed, tmp_path):
    plain = loaded / "f7.nopack"
    sources_of = {"a": plain, "b": plain, "c": packed}
    jobs = [CopyJob(of, tmp_path / n, fsfs.list_files(of)) for n, of in sources_of.items()]
    interleave(jobs, tmp_path, 0, seed=1)
    for copying in jobs:
        subprocess.run(["diff", "-r", copying.source, copying.destination], check=True)
        subprocess.run(["svnadmin", "verify", "-q", copying.destination], check=True)


def test_copy_and_compare_damaged_copy_raises(loaded, tmp_path, monkeypatch):
    source = loaded / "f7.nopack"

    def damaged(*arguments):
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


F7 = Variant("ruby", "f7", "nopack", "i1")


def make(place, loaded, *variants, fragmentation=0):
    record = {"identity": "i1", "path": str(loaded), "tree": "", "folder": "", "notes": []}
    make_copies(place, variants, 2, {"ruby": record}, fragmentation, 1)


@pytest.fixture
def place(tmp_path):
    return WorkDir(tmp_path, tmp_path / "checkout")


def test_make_copies_includes_spacers_in_space(loaded, place):
    # A terabyte for each of 24 revisions of two copies.
    error = r"spacers of 4[0-9.]* TiB included.*lower `fragmentation_kib`"
    with pytest.raises(UserError, match=error):
        make(place, loaded, F7, fragmentation=1e12 / 1024)
    assert len(missing_copies(place.path, [F7], 2)) == 2
