"""The bookkeeping of what is prepared: what storages are to have, what there is, what is made anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.prepare import loader
from vcsbench.prepare.copies import make_copies, staged_path
from vcsbench.prepare.loader import load_source
from vcsbench.prepare.repositories import PreparedRepositories, has_dump
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects.repository import Variant, copy_path, metadata_file

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0001, "seed": 1}
F6, F7 = (Variant("ruby", fmt, "nopack", "i1") for fmt in ("f6", "f7"))
BSD = Variant("bsd", "f7", "pack", "i2")

needs_svnadmin = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")


def test_what_is_wanted_where(tmp_path: Path) -> None:
    shelf = PreparedRepositories(
        {"ram": [F7], "disk": [F7, BSD, F6]}, {"disk": "/d", "ram": "/r"}, 2, tmp_path
    )
    assert shelf.storages == ["disk", "ram"]
    assert shelf.repositories("disk") == ["bsd", "ruby"] and shelf.repositories("ram") == ["ruby"]
    assert shelf.variant_rows("disk")[0] == ["bsd", "f7", "pack", "i2"]
    assert shelf.formats("ruby") == [["f6", "nopack"], ["f7", "nopack"]]
    assert shelf.storages_needing("ruby") == {
        "/d": [["f6", "nopack"], ["f7", "nopack"]],
        "/r": [["f7", "nopack"]],
    }
    assert shelf.storages_needing("bsd") == {"/d": [["f7", "pack"]]}
    assert shelf.other_storages("disk") == {"bsd": [], "ruby": ["ram"]}


def test_of_a_dump_file_there_need_be_no_copies(tmp_path: Path) -> None:
    shelf = PreparedRepositories({"disk": [F6]}, {"disk": "/d"}, 2, tmp_path, {"bsd": 7, "ruby": 9})
    assert shelf.all_repositories() == ["bsd", "ruby"]
    assert shelf.formats("ruby") == [["f6", "nopack"]]
    assert shelf.formats("bsd") == [["f7", "nopack"]] and shelf.storages_needing("bsd") == {}


@needs_svnadmin
def test_a_dump_file_has_the_first_revisions_and_is_noticed_when_it_changes(tmp_path: Path) -> None:
    source = sources.open_source("ruby", {**SMALL, "scale": 0.001})
    facts = load_source(source, [("f7", "nopack")], tmp_path)
    (tmp_path / "scratch").mkdir()
    place = WorkDir(tmp_path / "scratch", tmp_path)
    made = loader.make_dump(tmp_path / "f7.nopack", 12, place, "ruby")
    path, record = Path(made["path"]), {**facts, "dump": made}
    assert path.read_bytes().count(b"Revision-number: ") == 13
    assert made["last"] == 12 and made["bytes"] == path.stat().st_size
    assert has_dump(record, 12) and not has_dump(record, 13)
    every = loader.make_dump(tmp_path / "f7.nopack", 10**6, place, "ruby")
    assert every["last"] == facts["revisions"]
    assert has_dump({**facts, "dump": every}, 10**6)
    assert not has_dump(record, 12)  # it is another file now
    assert not has_dump(facts, 12)
    with pytest.raises(UserError, match="cannot be dumped"):
        loader.make_dump(place.path, 12, place, "other")
    assert not (path.parent / "other.dump").exists()


class Prepared:
    """A checkout whose storage `disk` has both copies of two variants, as the rules leave it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scratch = root / "scratch"
        for folder in (root / "disk", self.scratch):
            folder.mkdir()
        facts = load_source(
            sources.open_source("ruby", SMALL), [("f6", "nopack"), ("f7", "nopack")], self.scratch
        )
        record = {"path": str(self.scratch), "identity": "i1", "made": "loaded then", **facts}
        self._write("loaded/ruby", record)
        place = self.shelf().workdir("disk")
        labels = make_copies(place, [F6, F7], 2, {"ruby": record}, 0, 1)
        self._write("repositories/disk", {"made": "made then", "repositories": labels})

    def _write(self, name: str, content: object) -> None:
        path = self.root / "results" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def shelf(self, *more: Variant) -> PreparedRepositories:
        """As another start of the workflow would make it."""
        return PreparedRepositories({"disk": [F6, F7, *more]}, {"disk": "disk"}, 2, self.root)

    def copy(self, variant: Variant, number: int) -> Path:
        return copy_path(self.shelf().workdir("disk").path, variant.name, number)


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    """Copies that are there, and what they were made from, too."""
    return Prepared(tmp_path)


@needs_svnadmin
def test_what_is_whole_keeps_its_moments(
    prepared: Prepared, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(prepared.scratch)  # the rule that copies does that
    shelf = prepared.shelf()
    assert (shelf.copies_token("disk"), shelf.load_token("ruby")) == ("made then", "loaded then")
    assert shelf.missing("disk") == {} and capsys.readouterr().err == ""


@needs_svnadmin
def test_a_copy_that_is_gone_is_said_and_made_from_the_other(
    prepared: Prepared, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(prepared.scratch)
    shutil.rmtree(prepared.copy(F6, 2))
    shelf = prepared.shelf()
    assert shelf.copies_token("disk") == shelf.copies_token("disk") != "made then"
    assert shelf.load_token("ruby") == "loaded then"
    said = capsys.readouterr().err
    assert said.count("1 copies have vanished or were changed") == 1
    assert "(ruby.f6.nopack.2: it is gone)" in said


@needs_svnadmin
def test_it_is_loaded_anew_where_nothing_is_left_to_copy(prepared: Prepared) -> None:
    for number in (1, 2):
        metadata_file(prepared.copy(F6, number)).unlink()
    assert prepared.shelf().load_token("ruby") == "loaded then"  # what was loaded is still there
    (prepared.scratch / "f6.nopack" / "db" / "format").unlink()
    shelf = prepared.shelf()
    assert shelf.load_token("ruby") != "loaded then" and shelf.copies_token("disk") != "made then"


@needs_svnadmin
def test_formats_that_changed_places_are_loaded_anew(prepared: Prepared) -> None:
    """The one copy of each format where the other belongs: none is left to copy from."""
    shutil.rmtree(prepared.scratch)
    shelf = PreparedRepositories({"disk": [F6, F7]}, {"disk": "disk"}, 1, prepared.root)
    for of in (lambda path: path, metadata_file):
        one, two = (of(prepared.copy(variant, 1)) for variant in (F6, F7))
        one.rename(one.with_name("aside"))
        two.rename(one)
        one.with_name("aside").rename(two)
    assert set(shelf.missing("disk")) == {(F6, 1), (F7, 1)}
    assert shelf.load_token("ruby") != "loaded then" and shelf.copies_token("disk") != "made then"


@needs_svnadmin
def test_a_variant_that_is_new_has_not_vanished(
    prepared: Prepared, capsys: pytest.CaptureFixture[str]
) -> None:
    new = F6._replace(packing="pack")
    shelf = prepared.shelf(new)
    assert shelf.copies_token("disk") == "made then", "its params have it made"
    assert set(shelf.missing("disk")) == {(new, 1), (new, 2)} and capsys.readouterr().err == ""


@needs_svnadmin
def test_what_was_loaded_is_found_where_its_record_says(prepared: Prepared) -> None:
    record = json.loads(prepared.shelf().load_record("ruby").read_text())
    assert staged_path(record, F6) == prepared.scratch / "f6.nopack"
    assert staged_path(record, F6._replace(identity="i2")) is None
    assert staged_path(record, F6._replace(packing="pack")) is None
    assert staged_path({}, F6) is None
