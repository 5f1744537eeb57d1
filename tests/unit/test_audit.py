"""Copies are checked against their metadata, their path, and the repository itself."""

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from project import needs
from shards import small_shards
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.files import write_json
from vcsbench.prepare import copies
from vcsbench.prepare.copies import make_copies
from vcsbench.prepare.loader import load_source
from vcsbench.prepare.repositories import PreparedRepositories
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

pytestmark = needs("svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}
PAIRS = [("f6", "nopack"), ("f6", "pack"), ("f7", "nopack")]
PLAIN, PACKED, NEWER = (Variant("ruby", fmt, packing, "i1") for fmt, packing in PAIRS)
VARIANTS = [PLAIN, PACKED, NEWER]


class Prepared(NamedTuple):
    """Two copies of each variant in a work directory, in shards of ten revisions."""

    place: WorkDir
    record: dict[str, dict[str, object]]

    def path(self, variant, number):
        return copy_path(self.place.path, variant.name, number)

    def missing(self):
        """Return the copies that a start of the workflow rebuilds, with reasons. It reads no shards."""
        missing = copies.missing_copies(self.place.path, VARIANTS, 2, files=0)
        return {(variant.name, number): why for (variant, number), why in missing.items()}

    def make(self):
        make_copies(self.place, VARIANTS, 2, self.record, 0, 1)
        assert self.missing() == {}

    def check(self, variant, number):
        return check_copy(self.place.path, variant, number)

    def swap(self, left, right):
        """Exchange two copies and their metadata."""
        for file_of in (lambda path: path, metadata_file):
            first, second = file_of(self.path(*left)), file_of(self.path(*right))
            first.rename(first.with_name("aside"))
            second.rename(first)
            first.with_name("aside").rename(second)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    into = tmp_path_factory.mktemp("loaded")
    with small_shards():
        facts = load_source(sources.open_source("ruby", SMALL), PAIRS, into)
    return {"ruby": {"path": str(into), "identity": "i1", **facts}}


@pytest.fixture
def prepared(loaded, tmp_path):
    prepared = Prepared(WorkDir(tmp_path, tmp_path / "checkout"), loaded)
    prepared.make()
    return prepared


SWAPS = [
    ((PLAIN, 1), (NEWER, 1)),
    ((NEWER, 2), (PLAIN, 1)),
    ((PLAIN, 1), (PACKED, 1)),
    ((PLAIN, 1), (PLAIN, 2)),
]


@pytest.mark.parametrize(("left", "right"), SWAPS)
def test_copies_swapped_with_metadata_are_rebuilt(prepared, left, right):
    prepared.swap(left, right)
    missing = prepared.missing()
    assert set(missing) == {(variant.name, number) for variant, number in (left, right)}
    for (variant, number), other in ((left, right), (right, left)):
        owner = f"copy {other[1]} of {other[0].name}, made as {prepared.path(*other)}"
        assert owner in missing[variant.name, number]
        with pytest.raises(UserError, match="belongs elsewhere"):
            prepared.check(variant, number)
    prepared.make()


def edit_json(label, **values):
    """Change or remove (None) keys without a new checksum."""
    content = {**json.loads(label.read_text()), **values}
    label.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


UNWRITTEN = ".1.json is not as it was written"


def rename_format(copy):
    label = metadata_file(copy)
    label.write_text(label.read_text().replace('"f6"', '"f7"'))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (rename_format, UNWRITTEN),
        (lambda copy: edit_json(metadata_file(copy), bytes=1), UNWRITTEN),
        (lambda copy: edit_json(metadata_file(copy), variant=None, copy=None), UNWRITTEN),
        (lambda copy: os.truncate(metadata_file(copy), 100), UNWRITTEN),
        (lambda copy: fsfs.run_svnadmin("upgrade", copy), "it is of format f8, not of f6"),
        (lambda copy: fsfs.run_svnadmin("pack", "-q", copy), "2 of its 2 full shards are packed"),
        (lambda copy: (copy / "db/revs/0.pack").mkdir(), "counts 0 packed shards, and 1"),
        (lambda copy: (copy / "db/fs-type").write_text("bdb\n"), "its file system is bdb"),
        (lambda copy: (copy / "db/current").write_text("22\n"), "youngest revision is 22, not 23"),
    ],
)
@pytest.mark.parametrize("same_state", [False, True])
def test_copy_changed_is_rebuilt(prepared, change, why, same_state):
    copy = prepared.path(PLAIN, 1)
    change(copy)
    if same_state and why != UNWRITTEN:  # no time or size shows the change
        write_metadata(copy, {**read_metadata(copy), "state": fsfs.read_state(copy)})
    missing = prepared.missing()
    assert set(missing) == {(PLAIN.name, 1)} and why in missing[PLAIN.name, 1]
    assert "something changed" not in missing[PLAIN.name, 1]
    with pytest.raises(UserError, match=why):
        prepared.check(PLAIN, 1)
    assert not read_metadata(copy)
    prepared.make()


def test_check_copy_changed_other_source_or_gone_is_refused(prepared):
    (prepared.path(NEWER, 1) / "db/uuid").write_text("x")
    assert prepared.missing() == {(NEWER.name, 1): "something changed in db"}
    with pytest.raises(UserError, match="made from another source"):
        prepared.check(PLAIN._replace(identity="i2"), 1)
    assert read_metadata(prepared.path(PLAIN, 1))
    shutil.rmtree(prepared.path(PLAIN, 1))
    with pytest.raises(UserError, match="it does not exist"):
        prepared.check(PLAIN, 1)


BOTH = [(PLAIN, 1), (PLAIN, 2)]


@pytest.mark.parametrize(
    ("lost", "is_staged", "is_copied", "is_loaded"),
    [
        *(([], False, False, False), (BOTH[1:], False, True, False)),
        *((BOTH, True, True, False), (BOTH, False, True, True)),
    ],
)
def test_tokens_change_for_rules_that_must_run_again(
    prepared, capsys, lost, is_staged, is_copied, is_loaded
):
    root = Path(prepared.place.owner)
    new = PLAIN._replace(format="f8")
    repositories = PreparedRepositories(
        {"disk": [*VARIANTS, new]}, {"disk": str(prepared.place.storage)}, 2, root
    )
    staged = {} if is_staged else {"path": "/vanished"}
    known = {"repositories": {variant.name: {"identity": "i1"} for variant in VARIANTS}}
    for file, record in (
        (repositories.load_record("ruby"), {**prepared.record["ruby"], **staged}),
        (repositories.copies_record("disk"), known),
    ):
        file.parent.mkdir(parents=True)
        write_json(file, {**record, "made": "then"})
    for copy in lost:
        metadata_file(prepared.path(*copy)).unlink()
    tokens = [repositories.copies_token("disk") for _ in range(2)]
    assert tokens[0] == tokens[1] and (tokens[0] != "then") == is_copied
    # Copies of a new variant are made without a token.
    assert set(repositories.missing("disk")) == {*lost, (new, 1), (new, 2)}
    assert capsys.readouterr().err.count(f"{len(lost)} copies are missing") == bool(lost)
    repositories.needed = {"disk": VARIANTS}
    assert (repositories.load_token("ruby") != "then") == is_loaded
