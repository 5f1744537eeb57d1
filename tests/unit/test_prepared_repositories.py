"""The records of prepared repositories: needed, present and lost copies."""

import json
import shutil
from pathlib import Path

import pytest

from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.prepare import loader
from vcsbench.prepare.copies import make_copies
from vcsbench.prepare.loader import load_source
from vcsbench.prepare.repositories import PreparedRepositories, has_dump
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects.repository import Variant, copy_path, metadata_file

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0001, "seed": 1}
F6, F7 = (Variant("ruby", fmt, "nopack", "i1") for fmt in ("f6", "f7"))

needs_svnadmin = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")


@needs_svnadmin
def test_make_dump_has_first_revisions_and_detects_changes(tmp_path):
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
    assert not has_dump(record, 12)  # replaced by another file
    assert not has_dump(facts, 12)
    with pytest.raises(UserError, match="cannot be dumped"):
        loader.make_dump(place.path, 12, place, "other")
    assert not (path.parent / "other.dump").exists()


class Prepared:
    """A checkout with two copies of two variants on the storage `disk`."""

    def __init__(self, root):
        self.root = root
        self.scratch = root / "scratch"
        for folder in (root / "disk", self.scratch):
            folder.mkdir()
        facts = load_source(
            sources.open_source("ruby", SMALL), [("f6", "nopack"), ("f7", "nopack")], self.scratch
        )
        record = {"path": str(self.scratch), "identity": "i1", "made": "loaded then", **facts}
        self._write("loaded/ruby", record)
        place = self.records().workdir("disk")
        labels = make_copies(place, [F6, F7], 2, {"ruby": record}, 0, 1)
        self._write("repositories/disk", {"made": "made then", "repositories": labels})

    def _write(self, name, content):
        path = self.root / "results" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def records(self, *more):
        """Return the records as a new start of the workflow reads them."""
        return PreparedRepositories({"disk": [F6, F7, *more]}, {"disk": "disk"}, 2, self.root)

    def copy(self, variant, number):
        return copy_path(self.records().workdir("disk").path, variant.name, number)


@pytest.fixture
def prepared(tmp_path):
    return Prepared(tmp_path)


def remove_both(prepared):
    for number in (1, 2):
        metadata_file(prepared.copy(F6, number)).unlink()


@needs_svnadmin
@pytest.mark.parametrize(
    ("change", "is_staged", "copies", "missing", "is_copied", "is_loaded"),
    [
        (lambda _: None, False, 2, set(), False, False),
        (lambda p: shutil.rmtree(p.copy(F6, 2)), False, 2, {(F6, 2)}, True, False),
        (remove_both, True, 2, {(F6, 1), (F6, 2)}, True, False),
        (remove_both, False, 2, {(F6, 1), (F6, 2)}, True, True),
    ],
    ids=["intact", "one lost", "all lost", "all lost, not staged"],
)
def test_tokens_change_for_rules_that_must_run_again(
    prepared, change, is_staged, copies, missing, is_copied, is_loaded, capsys
):
    if not is_staged:
        shutil.rmtree(prepared.scratch)  # like the rule that copies
    change(prepared)
    records = PreparedRepositories({"disk": [F6, F7]}, {"disk": "disk"}, copies, prepared.root)
    assert set(records.missing("disk")) == missing
    assert (records.copies_token("disk") != "made then") == is_copied
    assert (records.load_token("ruby") != "loaded then") == is_loaded
    assert records.copies_token("disk") == records.copies_token("disk")
    reported = f"{len(missing)} copies are missing or were changed"
    assert capsys.readouterr().err.count(reported) == bool(missing)


@needs_svnadmin
def test_tokens_with_a_new_variant_stay(prepared, capsys):
    new = F6._replace(packing="pack")
    records = prepared.records(new)
    assert records.copies_token("disk") == "made then"
    assert set(records.missing("disk")) == {(new, 1), (new, 2)} and capsys.readouterr().err == ""
