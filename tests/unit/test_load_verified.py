"""What is loaded and packed is verified: one of both whole, and the other held against it."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shards import small_shards
from vcsbench import progress, sources
from vcsbench.errors import UserError
from vcsbench.prepare import copies, loader, verify
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.repository import REPOSITORIES, Variant

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}


BOTH = [(fmt, packing) for fmt in ("f6", "f7", "f6-to-f8") for packing in ("nopack", "pack")]


@pytest.fixture(scope="module", autouse=True)
def _small_shards() -> Iterator[None]:
    """Shards of 10 revisions, so that a small repository has something to pack."""
    with small_shards():
        yield


@pytest.fixture(scope="module")
def _loaded(tmp_path_factory: pytest.TempPathFactory, _small_shards: None) -> tuple[Path, Any]:
    into = tmp_path_factory.mktemp("loaded")
    return into, loader.load_source(sources.open_source("ruby", SMALL), BOTH, into)


@pytest.fixture
def into(_loaded: tuple[Path, Any], tmp_path: Path) -> Path:
    """A folder of its own with all that is loaded: in three formats, packed and not."""
    shutil.copytree(_loaded[0], tmp_path / "loading" / "ruby")
    return tmp_path / "loading" / "ruby"


def load(into: Path, *variants: tuple[str, str]) -> None:
    loader.load_source(sources.open_source("ruby", SMALL), variants, into)
    verify.verify_all(into)


def turn_bits(file: Path, *places: float) -> None:
    """Turn a bit at each of these places of a file, from 0 to 1."""
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    for place in places:
        content[int(place * len(content))] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("fmt", ["f6", "f7"])
@pytest.mark.parametrize("packings", [("nopack",), ("pack",), ("nopack", "pack")])
def test_a_revision_that_was_loaded_damaged_is_refused(
    fmt: str, packings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loader._stream

    def damaged(source: Any, paths: list[Path]) -> Any:
        facts = real(source, paths)
        # Of one alone, verify was seen to say nothing in a revision of f6.
        turn_bits(paths[0] / "db" / "revs" / "1" / "12", *(0.5 + at / 1000 for at in range(100)))
        return facts

    monkeypatch.setattr(loader, "_stream", damaged)
    with pytest.raises(
        UserError, match=rf"svnadmin (verify|pack) .*{fmt}\..*pack failed: svnadmin: E"
    ):
        load(tmp_path, *((fmt, packing) for packing in packings))


@pytest.mark.parametrize("fmt", ["f6", "f7", "f6-to-f8"])
@pytest.mark.parametrize("place", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("packing", ["nopack", "pack"])
def test_a_single_bit_that_turns_in_one_of_both_is_found(
    fmt: str, place: float, packing: str, into: Path
) -> None:
    revs = into / f"{fmt}.{packing}" / "db" / "revs"
    turn_bits(revs / ("1/12" if packing == "nopack" else "1.pack/pack"), place)
    with pytest.raises(verify.DamagedError, match=rf"{fmt}\.{packing}") as raised:
        verify.verify_all(into)
    assert raised.value.staging == into and not (into / verify.MARK).exists()


def test_a_revision_behind_the_packed_shards_is_compared_too(into: Path) -> None:
    last = fsfs.youngest(into / "f6.nopack")
    assert last // 10 == 2
    turn_bits(into / "f6.nopack" / "db" / "revs" / "2" / str(last), 0.5)
    with pytest.raises(verify.DamagedError, match="has other bytes than"):
        verify.verify_all(into)


@pytest.mark.parametrize("fmt", ["f6", "f7"])
def test_a_property_of_a_revision_that_changes_is_found(fmt: str, into: Path) -> None:
    file = into / f"{fmt}.nopack" / "db" / "revprops" / "1" / "12"
    file.chmod(0o644)
    said = file.read_bytes()
    assert b"svn:author" in said
    file.write_bytes(said.replace(b"svn:author", b"svn:arthur"))
    with pytest.raises(verify.DamagedError, match="differ in the properties of a revision"):
        verify.verify_all(into)


def test_what_is_not_wanted_goes(tmp_path: Path) -> None:
    load(tmp_path, ("f7", "pack"), ("f6-to-f8", "pack"), ("f6-to-f8", "nopack"))
    kept = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert kept == ["f6-to-f8.nopack", "f6-to-f8.pack", "f7.pack"]


def test_all_that_stays_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = fsfs.run_svnadmin

    def run(*arguments: Any, **keywords: Any) -> None:
        if arguments[0] == "verify":
            seen.append((arguments[-1].name, "--metadata-only" in arguments))
        real(*arguments, **keywords)

    monkeypatch.setattr(fsfs, "run_svnadmin", run)
    load(tmp_path, ("f7", "nopack"), ("f7", "pack"), ("f6", "nopack"), ("f8", "pack"))
    verify.verify_all(tmp_path)  # once is enough
    assert sorted(seen) == [
        ("f6.nopack", False),
        ("f7.nopack", True),
        ("f7.pack", False),
        ("f8.pack", False),
    ]


@pytest.mark.parametrize("shard", [0, 1, 2])
def test_a_large_repository_is_verified_in_parts_that_are_all_of_it(
    shard: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    real = fsfs.run_svnadmin

    def run(*arguments: Any, **keywords: Any) -> None:
        if arguments[0] == "verify":
            seen.append(arguments[arguments.index("-r") + 1])
        real(*arguments, **keywords)

    loader.load_source(sources.open_source("ruby", SMALL), [("f7", "nopack")], tmp_path)
    monkeypatch.setattr(fsfs, "run_svnadmin", run)
    monkeypatch.setattr(verify, "SHARDS_PER_PART", 1)
    last = fsfs.youngest(tmp_path / "f7.nopack")
    verify.verify_all(tmp_path)
    assert sorted(seen) == ["0:9", "10:19", f"20:{last}"]
    (tmp_path / verify.MARK).unlink()
    turn_bits(tmp_path / "f7.nopack" / "db" / "revs" / str(shard) / str(shard * 10 + 2), 0.5)
    with pytest.raises(verify.DamagedError):
        verify.verify_all(tmp_path)


def test_metadata_that_is_told_of_first_is_no_revision_verified(
    into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[tuple[int, int]]] = []

    def run(*arguments: Any, on_line: Any) -> None:
        on_line("* Verifying metadata at revision 20 ...")
        if verify.METADATA_ONLY not in arguments:
            on_line(f"* Verified revision {arguments[-2].partition(':')[0]}.")
            on_line(f"* Verified revision {int(arguments[-2].partition(':')[0]) + 1}.")
        stages = [each.update() for each in progress.running]
        seen.append([(stage.done, stage.total) for stage in stages])

    monkeypatch.setattr(fsfs, "run_svnadmin", run)
    monkeypatch.setattr(verify, "SHARDS_PER_PART", 1)
    monkeypatch.setattr(verify, "THREADS", 1)
    for path in into.iterdir():
        if not path.name.startswith("f7"):
            shutil.rmtree(path)
    last = fsfs.youngest(into / "f7.pack")
    verify.verify_all(into)
    assert seen == [[(1, last)], [(3, last)], [(5, last)], [(5, last), (20, last)]]


@pytest.mark.parametrize(
    ("last", "size", "parts"),
    [
        (0, 0, [range(1)]),  # f1 and f2 have no shards
        (7, 0, [range(4), range(4, 8)]),
        (9, 10, [range(10)]),
        (70, 10, [range(40), range(40, 71)]),
        (69, 10, [range(70)]),
    ],
)
def test_a_part_is_of_whole_shards_and_of_enough(
    last: int, size: int, parts: list[range], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fsfs, "youngest", lambda _: last)
    monkeypatch.setattr(fsfs, "shard_size", lambda _: size)
    assert verify._split(tmp_path) == parts


class Copies:
    """Copies of what is loaded."""

    def __init__(self, into: Path, facts: Any) -> None:
        self.loaded = {"ruby": {"identity": "i", "path": str(into), **facts}}
        self.variants = [Variant("ruby", *pair, "i") for pair in BOTH]
        self.place = WorkDir(into.parent, into)

    def make(self) -> None:
        copies.make_copies(self.place, self.variants, 2, self.loaded, 0, 1)

    def there(self) -> list[str]:
        return sorted(path.name for path in (self.place.path / REPOSITORIES).iterdir())


@pytest.fixture
def made(into: Path, _loaded: tuple[Path, Any]) -> Copies:
    """Copies of what is loaded, of which none is made yet."""
    return Copies(into, _loaded[1])


def test_no_copy_of_what_is_damaged_is_there_to_be_measured(made: Copies, into: Path) -> None:
    turn_bits(into / "f6.nopack" / "db" / "revs" / "1" / "12", 0.5)
    with pytest.raises(verify.DamagedError, match=r"f6\.nopack") as raised:
        made.make()
    assert raised.value.staging == into and made.there() == []
    assert not (into / verify.MARK).exists()


def test_what_is_verified_has_its_copies(made: Copies, into: Path) -> None:
    made.make()
    assert (
        len([name for name in made.there() if name.endswith(".json")]) == 2 * len(BOTH) + 1
    )  # and an empty one
    assert (into / verify.MARK).exists()


def test_where_copies_cannot_be_made_nothing_is_verified_to_its_end(
    made: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = threading.Event()
    real = fsfs.run_svnadmin

    def run(*arguments: Any, on_line: Any = None) -> None:
        if arguments[0] == "verify":
            # One that takes as long as it likes and says a line now and then.
            try:
                while not stopped.wait(0.01):
                    on_line("* Verified revision 1.")
            except BaseException:
                stopped.set()
                raise
        else:
            real(*arguments, on_line=on_line)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(made.place.path))

    monkeypatch.setattr(fsfs, "run_svnadmin", run)
    monkeypatch.setattr(copies, "copy_and_compare", full)
    with pytest.raises(UserError, match="full"):
        made.make()
    assert stopped.is_set() and made.there() == []
