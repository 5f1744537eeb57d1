"""A copy is what its label says, whose it says, and what the repository says of itself."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from shards import small_shards
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.prepare import copies
from vcsbench.prepare.copies import make_copies
from vcsbench.prepare.loader import load_source
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.repository import (
    Variant,
    check_copy,
    copy_path,
    metadata_file,
    read_metadata,
    write_metadata,
)

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}
PAIRS = [("f6", "nopack"), ("f6", "pack"), ("f7", "nopack")]
PLAIN, PACKED, NEWER = (Variant("ruby", fmt, packing, "i1") for fmt, packing in PAIRS)
VARIANTS = [PLAIN, PACKED, NEWER]


class Shelves(NamedTuple):
    """Two copies of each variant on a place, in shards of ten revisions."""

    place: WorkDir
    record: dict[str, dict[str, object]]

    def path(self, variant: Variant, number: int) -> Path:
        return copy_path(self.place.path, variant.name, number)

    def missing(self) -> dict[tuple[str, int], str]:
        """As the workflow finds them when it starts: no shard looked into."""
        found = copies.missing_copies(self.place.path, VARIANTS, 2, files=0)
        return {(variant.name, number): why for (variant, number), why in found.items()}

    def make(self) -> None:
        make_copies(self.place, VARIANTS, 2, self.record, 0, 1)

    def swap(self, one: tuple[Variant, int], two: tuple[Variant, int]) -> None:
        """Let two copies change places, each with its label."""
        for of in (lambda path: path, metadata_file):
            first, second = of(self.path(*one)), of(self.path(*two))
            first.rename(first.with_name("aside"))
            second.rename(first)
            first.with_name("aside").rename(second)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """The record of a source that was loaded in each variant."""
    into = tmp_path_factory.mktemp("loaded")
    with small_shards():
        facts = load_source(sources.open_source("ruby", SMALL), PAIRS, into)
    return {"ruby": {"path": str(into), "identity": "i1", **facts}}


@pytest.fixture
def shelves(loaded: dict[str, dict[str, object]], tmp_path: Path) -> Shelves:
    """All copies, as they were made."""
    made = Shelves(WorkDir(tmp_path, tmp_path / "checkout"), loaded)
    made.make()
    assert made.missing() == {}
    return made


SWAPS = [
    ((PLAIN, 1), (NEWER, 1)),
    ((NEWER, 2), (PLAIN, 1)),
    ((PLAIN, 1), (PACKED, 1)),
    ((PLAIN, 1), (PLAIN, 2)),
]


@pytest.mark.parametrize(("one", "two"), SWAPS)
def test_a_copy_with_its_label_in_the_place_of_another_is_found(
    shelves: Shelves, one: tuple[Variant, int], two: tuple[Variant, int]
) -> None:
    shelves.swap(one, two)
    missing = shelves.missing()
    assert set(missing) == {(variant.name, number) for variant, number in (one, two)}
    for (variant, number), (other, its) in ((one, two), (two, one)):
        says = f"its metadata is that of copy {its} of {other.name}, made as {shelves.path(other, its)}"
        assert says in missing[variant.name, number]
        with pytest.raises(UserError, match=r"belongs elsewhere: .*the next run .* makes it again"):
            check_copy(shelves.place.path, variant, number)
    shelves.make()
    assert shelves.missing() == {}


@pytest.mark.parametrize(("one", "two"), SWAPS[:3])
def test_a_copy_in_the_place_of_another_below_the_label_of_that_is_found(
    shelves: Shelves, one: tuple[Variant, int], two: tuple[Variant, int]
) -> None:
    """Whoever moves labels may write them, too: the repository itself says what it is."""
    labels = [read_metadata(shelves.path(*at)) for at in (one, two)]
    shelves.swap(one, two)
    for at, label, other in ((one, *labels), (two, *reversed(labels))):
        write_metadata(shelves.path(*at), {**label, "state": other["state"]})
        with pytest.raises(UserError, match=r"it is of format f\d, not of|full shards are packed"):
            check_copy(shelves.place.path, *at)
    assert set(shelves.missing()) == {(variant.name, number) for variant, number in (one, two)}


@pytest.mark.parametrize("other", [{"variant": NEWER.name}, {"copy": 2}])
def test_a_label_that_says_another_copy_is_found(
    shelves: Shelves, other: dict[str, object]
) -> None:
    copy = shelves.path(PLAIN, 1)
    write_metadata(copy, {**read_metadata(copy), **other})
    assert "belongs elsewhere" in shelves.missing()[PLAIN.name, 1]


def test_copies_that_were_made_on_another_storage_are_found(shelves: Shelves) -> None:
    moved = shelves.place.path.rename(shelves.place.path.with_name("moved"))
    with pytest.raises(
        UserError, match=f"of copy 1 of {PLAIN.name}, made as {shelves.place.path}/"
    ):
        check_copy(moved, PLAIN, 1)


EDITS: dict[str, Callable[[Path], object]] = {
    "format": lambda label: label.write_text(label.read_text().replace('"f6"', '"f7"')),
    "bytes": lambda label: label.write_text(
        json.dumps({**json.loads(label.read_text()), "bytes": 1})
    ),
    "without the keys of today": lambda label: label.write_text(
        json.dumps(
            {
                key: value
                for key, value in json.loads(label.read_text()).items()
                if key not in ("variant", "copy", "path", "seal")
            }
        )
    ),
    "torn": lambda label: os.truncate(label, 100),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_label_that_was_edited_or_is_an_old_one_is_none(shelves: Shelves, edit: str) -> None:
    copy = shelves.path(PLAIN, 2)
    EDITS[edit](metadata_file(copy))
    said = f"{copy.name}.json is not as it was written"
    assert shelves.missing() == {(PLAIN.name, 2): said}
    with pytest.raises(UserError, match=said):
        check_copy(shelves.place.path, PLAIN, 2)
    shelves.make()
    assert shelves.missing() == {}


def upgrade(copy: Path) -> None:
    fsfs.run_svnadmin("upgrade", copy)


def pack(copy: Path) -> None:
    fsfs.run_svnadmin("pack", "-q", copy)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (upgrade, "it is of format f8, not of f6"),
        (pack, "2 of its 2 full shards are packed, and none should be"),
        (
            lambda copy: (copy / "db/revs/0.pack").mkdir(),
            "db/min-unpacked-rev counts 0 packed shards, and 1",
        ),
        (lambda copy: (copy / "db/fs-type").write_text("bdb\n"), "its file system is bdb"),
        (
            lambda copy: (copy / "db/current").write_text("22\n"),
            "its youngest revision is 22, not 23",
        ),
    ],
)
@pytest.mark.parametrize("behind", [False, True])
def test_a_repository_that_was_made_another_behind_its_label_is_found(
    shelves: Shelves, change: Callable[[Path], object], why: str, behind: bool
) -> None:
    copy = shelves.path(PLAIN, 1)
    change(copy)
    if behind:  # no time or size tells
        write_metadata(copy, {**read_metadata(copy), "state": fsfs.read_state(copy)})
    missing = shelves.missing()
    assert set(missing) == {(PLAIN.name, 1)} and why in missing[PLAIN.name, 1]
    assert "something changed" not in missing[PLAIN.name, 1], "what it is comes first"
    with pytest.raises(UserError, match=why):
        check_copy(shelves.place.path, PLAIN, 1)
    assert not read_metadata(copy), "the label is withdrawn"
    shelves.make()
    assert shelves.missing() == {}


def test_a_copy_that_is_sound_is_measured_and_one_of_another_source_is_not(
    shelves: Shelves,
) -> None:
    for variant in VARIANTS:
        label = check_copy(shelves.place.path, variant, 2)
        assert (label["variant"], label["copy"]) == (variant.name, 2)
        assert fsfs.read_shape(shelves.path(variant, 2)).packed == label["packed_shards"]
    other = PLAIN._replace(identity="i2")
    with pytest.raises(UserError, match="made from another source"):
        check_copy(shelves.place.path, other, 1)
    assert read_metadata(shelves.path(PLAIN, 1)), "it is whole, and stays"
    shutil.rmtree(shelves.path(PLAIN, 1))
    with pytest.raises(UserError, match="it is gone"):
        check_copy(shelves.place.path, PLAIN, 1)


def test_what_the_repository_does_not_say_of_itself_its_state_tells(shelves: Shelves) -> None:
    (shelves.path(PLAIN, 1) / "db/uuid").write_text("x")
    assert shelves.missing() == {(PLAIN.name, 1): "something changed in db"}


def test_little_is_read_of_a_copy_that_is_to_be_measured(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    real = Path.open

    def spy(self: Path, *rest: object, **more: object) -> object:
        opened.append(self.name)
        return real(self, *rest, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", spy)
    check_copy(shelves.place.path, PACKED, 1)
    allowed = {"fs-type", "format", "min-unpacked-rev", "current", f"{PACKED.name}.1.json"}
    assert opened and set(opened) <= allowed and len(opened) < 10
