"""Loaded and packed repositories are verified: one of each pair whole, the other compared with it."""

import shutil

import pytest

from project import needs
from shards import small_shards
from vcsbench import sources
from vcsbench.prepare import copies, loader, verify
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.repository import REPOSITORIES, Variant

pytestmark = needs("svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}
BOTH = [(fmt, packing) for fmt in ("f6", "f7", "f6-to-f8") for packing in ("nopack", "pack")]


@pytest.fixture(scope="module", autouse=True)
def _small_shards():
    """Use shards of 10 revisions, so that a small repository has something to pack."""
    with small_shards():
        yield


@pytest.fixture(scope="module")
def _loaded(tmp_path_factory, _small_shards):
    into = tmp_path_factory.mktemp("loaded")
    return into, loader.load_source(sources.open_source("ruby", SMALL), BOTH, into)


@pytest.fixture
def into(_loaded, tmp_path):
    """A copy of the loaded repositories: in three formats, packed and not."""
    shutil.copytree(_loaded[0], tmp_path / "loading" / "ruby")
    return tmp_path / "loading" / "ruby"


def flip_bits(file, *places):
    """Flip a bit at each of these places of a file, from 0 to 1."""
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    for place in places:
        content[int(place * len(content))] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("fmt", ["f6", "f7", "f6-to-f8"])
@pytest.mark.parametrize("place", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("file", ["nopack/db/revs/1/12", "pack/db/revs/1.pack/pack", "behind"])
def test_verify_all_one_flipped_bit_is_damage(fmt, place, file, into):
    if file == "behind":  # the packed shards
        file = f"nopack/db/revs/2/{fsfs.youngest(into / f'{fmt}.nopack')}"
    flip_bits(into / f"{fmt}.{file}", place)
    with pytest.raises(verify.DamagedError, match=rf"{fmt}\.(no)?pack") as raised:
        verify.verify_all(into)
    assert raised.value.staging == into and not (into / verify.MARK).exists()


@pytest.mark.parametrize("fmt", ["f6", "f7"])
def test_verify_all_compares_revision_properties(fmt, into):
    file = into / f"{fmt}.nopack" / "db" / "revprops" / "1" / "12"
    file.chmod(0o644)
    content = file.read_bytes()
    assert b"svn:author" in content
    file.write_bytes(content.replace(b"svn:author", b"svn:arthur"))
    with pytest.raises(verify.DamagedError, match="differ in the properties of a revision"):
        verify.verify_all(into)


@pytest.fixture
def make(into, _loaded):
    """Return a function that makes two copies of each loaded repository."""
    loaded = {"ruby": {"identity": "i", "path": str(into), **_loaded[1]}}
    variants = [Variant("ruby", *pair, "i") for pair in BOTH]
    workdir = WorkDir(into.parent, into)
    return lambda: copies.make_copies(workdir, variants, 2, loaded, 0, 1)


def copied(into):
    return [path.name for path in into.parents[1].rglob(f"{REPOSITORIES}/*.json")]


def test_make_copies_makes_all_of_sound_and_none_of_damaged_repositories(make, into):
    flip_bits(into / "f6.nopack" / "db" / "revs" / "1" / "12", 0.5)
    with pytest.raises(verify.DamagedError, match=r"f6\.nopack") as raised:
        make()
    assert raised.value.staging == into and copied(into) == []
    assert not (into / verify.MARK).exists()
    flip_bits(into / "f6.nopack" / "db" / "revs" / "1" / "12", 0.5)
    make()
    assert len(copied(into)) == 2 * len(BOTH) + 1
    assert (into / verify.MARK).exists()
