"""Repositories of users: the format and packing that are detected, and the grid that follows."""

import subprocess
from types import SimpleNamespace

import pytest

from project import needs
from shards import set_shard_size
from unit.study_grid import study_grid
from vcsbench import sources
from vcsbench.axes import axis_of
from vcsbench.axes.repository_axes import current_format, current_packing
from vcsbench.errors import UserError
from vcsbench.formats import Shape
from vcsbench.machine import Machine
from vcsbench.plan.grid import is_fixed_cost
from vcsbench.systems import fsfs

pytestmark = needs("svnadmin")

SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0001, "seed": 1}
AS_IS = {"repository": {"name": "mine", "format": "as-is"}}


@pytest.fixture
def make(tmp_path):
    def made(fmt, shard=0, pack=False, upgrade=False):
        path = tmp_path / "mine"
        fsfs.create(path, fmt)
        if shard:
            set_shard_size(path, shard)
        with subprocess.Popen(["svnadmin", "load", "-q", path], stdin=subprocess.PIPE) as process:
            sources.open_source("mine", SMALL).write(process.stdin)
        for enabled, action in ((upgrade, "upgrade"), (pack, "pack")):
            if enabled:
                fsfs.run_svnadmin(action, path)
        return path

    return made


def grid_of(path, *include):
    return study_grid("own-repository", *include, repository=str(path))


def here_of(path):
    return grid_of(path)[0]


def findings(here):
    return " ".join(axis_of("format").findings(here) + axis_of("packing").findings(here))


@pytest.mark.parametrize(
    ("made", "number", "packing", "full", "why_no_pack"),
    [
        ({"fmt": "f2"}, 2, "nopack", 0, "has no shards"),
        ({"fmt": "f3", "shard": 2}, 3, "nopack", 3, "packs no repository of f3"),
        ({"fmt": "f6"}, 6, "nopack", 0, "no full shard of 1000"),
        ({"fmt": "f6", "shard": 2}, 6, "nopack", 3, ""),
        ({"fmt": "f6", "shard": 2, "pack": True}, 6, "pack", 3, ""),
        ({"fmt": "f8"}, 8, "nopack", 0, "no full shard of 1000"),
        ({"fmt": "f2", "upgrade": True}, 8, "nopack", 0, "has no shards"),
        ({"fmt": "f7", "upgrade": True}, 8, "nopack", 0, "no full shard of 1000"),
    ],
)
def test_own_repository_as_it_is_is_detected_and_first(
    make, made, number, packing, full, why_no_pack
):
    here = here_of(make(**made))
    stored, packed = here.shape_or_reason, full if packing == "pack" else 0
    assert isinstance(stored, Shape)
    assert (stored.number, stored.full, stored.packed) == (number, full, packed)
    assert (current_format(here), current_packing(here)) == ("as-is", packing)
    up = [] if number == 8 else ["as-is-to-f8"]
    formats = axis_of("format").values_by_word(here)["formats"]
    assert formats == ["as-is", *up, "f6", "f7", "f8", "f6-today"]
    assert axis_of("format").select(["upgraded"], [], here) == up
    layout = ", with the layout" if made == {"fmt": "f2", "upgrade": True} else ": "
    assert f"format {number}{layout}" in findings(here)
    shards = f" {full} full shards, {packed} packed: {packing} "
    assert shards in findings(here) and " folder trunk." in findings(here)
    why = axis_of("packing").why_not("pack", AS_IS, here)
    assert why_no_pack in why and bool(why) is bool(why_no_pack)


@pytest.mark.parametrize(
    ("kind", "why"),
    [("dump", "dump has no format of Subversion's"), ("fsx", "fsx, not FSFS")],
)
def test_format_of_a_dump_and_of_fsx_is_that_of_svnadmin(make, tmp_path, kind, why):
    path = tmp_path / kind
    if kind == "dump":
        path.write_bytes(subprocess.check_output(["svnadmin", "dump", "-q", make("f6")]))
    else:
        subprocess.run(["svnadmin", "create", "--fs-type", "fsx", path], check=True)
        subprocess.run(["svn", "mkdir", "-q", "-m", "", f"{path.as_uri()}/trunk"], check=True)
    here = here_of(path)
    newest = here.machine.newest_format
    assert (current_format(here), current_packing(here)) == (newest, "nopack")
    assert axis_of("format").why_not("as-is", {}, here).endswith(why)
    assert findings(here).startswith(f"The baseline is {newest}, ")
    assert axis_of("format").select(["upgraded"], [], here) == []


@pytest.mark.parametrize("release", ["1.0", "1.1"])
def test_source_in_berkeley_db_is_refused(make, release):
    path = make("f6")
    (path / "db" / "fs-type").write_text("bdb\n")
    if release == "1.0":
        (path / "db" / "fs-type").rename(path / "db" / "DB_CONFIG")
    with pytest.raises(UserError, match=r"mine\.path`: .*Berkeley DB, .* `svnadmin dump` .* old"):
        here_of(path).sources["mine"].check()


def test_format_and_packing_that_cannot_be_made_have_reasons(make):
    here = here_of(make("f6"))
    for axis, value, name, fmt, reason in (
        ("format", "as-is", "mine", "", ""),
        ("format", "as-is", "empty", "", "empty is no repository of yours"),
        ("format", "as-is-to-f8", "empty", "", "empty is no repository of yours"),
        ("packing", "pack", "mine", "f2", "has no shards"),
        ("packing", "pack", "mine", "f2-to-f8", "has no shards"),
        ("packing", "pack", "mine", "f3", "packs no repository of f3"),
        ("packing", "partly", "mine", "f8", "can be partly packed"),
    ):
        parts = {"repository": {"name": name, **({"format": fmt} if fmt else {})}}
        why = axis_of(axis).why_not(value, parts, here)
        assert reason in why and bool(why) is bool(reason)


def test_format_newer_than_svnadmin_has_no_copy_as_is(make):
    path = make("f6")
    here = here_of(path)
    here.__dict__["shape_or_reason"] = Shape(9, 1000, True, 0, 0)
    why = axis_of("format").why_not("as-is", {}, here)
    assert f"up to {here.machine.newest_format}" in why and why.count(" f9")
    (path / "db" / "format").write_text("9\nlayout sharded 1000\n")
    with pytest.raises(UserError, match="found format '9'"):
        here_of(path)


def test_grid_with_an_older_svnadmin_has_newer_formats_to_skip(make, monkeypatch):
    monkeypatch.setattr(Machine, "newest_format", "f7")
    here, cells = grid_of(make("f6"))
    formats = {cell.axes["format"] for cell in cells}
    assert formats == {"as-is", "as-is-to-f7", "f7", "f8"}
    assert [fmt for fmt in formats if axis_of("format").why_not(fmt, {}, here)] == ["f8"]


@pytest.mark.parametrize(("youngest", "packing"), [(999, "pack"), (998, "nopack")])
def test_packing_of_a_first_shard_counts_revision_0(youngest, packing):
    here = SimpleNamespace(own_shape=None, only_repository="mine", revisions=lambda _name: youngest)
    assert axis_of("packing").select(["if_packable"], [], here) == [packing]
    parts = {"repository": {"name": "mine", "format": "f8"}}
    why = axis_of("packing").why_not("pack", parts, here)
    assert bool(why) is (packing == "nopack")


def test_packing_partly_stays_and_can_be_packed(make):
    path = make("f6", shard=2)
    (path / "db" / "revs" / "0.pack").mkdir()
    (path / "db" / "min-unpacked-rev").write_text("2\n")
    here, axis = here_of(path), axis_of("packing")
    assert current_packing(here) == "partly"
    assert axis.values_by_word(here)["packings"][0] == "partly"
    assert axis.why_not("partly", AS_IS, here) == axis.why_not("pack", AS_IS, here) == ""
    assert axis.why_not("nopack", AS_IS, here).endswith("svnadmin cannot unpack")


UNPACKED, WHOLLY_PACKED = {}, {"shard": 2, "pack": True}


@pytest.mark.parametrize(
    ("made", "value", "default", "ending"),
    [
        # A study without the axis has a default, or none.
        (UNPACKED, "", {}, ""),
        (UNPACKED, "", {"packing": "nopack"}, ""),
        (UNPACKED, "partly", {}, " is nopack, and a copy keeps that"),
        (WHOLLY_PACKED, "", {}, ""),
        (WHOLLY_PACKED, "", {"packing": "nopack"}, "unpack"),
    ],
)
def test_packing_of_a_copy_is_that_of_the_repository(make, made, value, default, ending):
    here, parts = here_of(make("f6", **made)), {"name": "mine", "format": "as-is", **default}
    why = axis_of("packing").why_not(value, {"repository": parts}, here)
    assert why.endswith(ending) and bool(why) is bool(ending)


@pytest.mark.parametrize(("made", "packing"), [(WHOLLY_PACKED, "pack"), (UNPACKED, "nopack")])
def test_grid_current_and_packable_values_are_those_of_repository(make, made, packing):
    cold = {"command": "log", "access": "svn", "config": "default", "cache": "cold"}
    own = {**cold, "format": "current", "packing": "current"}
    others = {**cold, "format": ["upgraded", "f8"], "packing": "if_packable"}
    _, cells = grid_of(make("f6", **made), own, others)
    of = [(c.axes["format"], c.axes["packing"]) for c in cells if not is_fixed_cost(c.axes)]
    assert of == [(fmt, packing) for fmt in ("as-is", "as-is-to-f8", "f8")]


def test_format_findings_without_trunk_name_the_root(tmp_path):
    path = tmp_path / "mine"
    fsfs.create(path, "f6")
    url = f"{path.as_uri()}/project/trunk"
    subprocess.run(["svn", "mkdir", "-q", "--parents", "-m", "", url], check=True)
    assert "the root, " in findings(here_of(path))
