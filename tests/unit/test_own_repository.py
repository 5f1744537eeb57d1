"""What a user's own repository is: found out of real ones, and what the grid makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shards import set_shard_size
from unit.study_grid import DEFAULT, ROOT, study_grid
from vcsbench import sources
from vcsbench.axes.axis import Environment
from vcsbench.axes.subject_axes import current_format, current_packing
from vcsbench.axes.table import axis_of
from vcsbench.config.configuration import load_config, merge
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.plan.grid import CellSpec, is_fixed_cost
from vcsbench.sources.base import Stored
from vcsbench.subjects import fsfs

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")

STUDY = "own-repository"
SMALL = {"source": "generated", "profile": "ruby", "scale": 0.0001, "seed": 1}
SETTINGS = {"cache-256", "cache-1024", "revprops", "block-read", "no-compression"}
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a repository of 5 revisions: of a format, with small shards, packed, upgraded afterwards."""

    def made(fmt: str, shard: int = 0, pack: bool = False, upgrade: bool = False) -> Path:
        path = tmp_path / "mine"
        fsfs.create(path, fmt)
        if shard:
            set_shard_size(path, shard)
        with subprocess.Popen(["svnadmin", "load", "-q", path], stdin=subprocess.PIPE) as process:
            assert process.stdin
            sources.open_source("mine", SMALL).write(process.stdin)
        for wanted, action in ((upgrade, "upgrade"), (pack, "pack")):
            if wanted:
                fsfs.run_svnadmin(action, path)
        return path

    return made


def grid_of(path: Path, *include: dict[str, Any]) -> tuple[Environment, list[CellSpec]]:
    return study_grid(STUDY, *include, repository=str(path))


def here_of(path: Path) -> Environment:
    return grid_of(path)[0]


def said(here: Environment) -> str:
    return " ".join(axis_of("format").findings(here) + axis_of("packing").findings(here))


@pytest.mark.parametrize("fmt", ["f2", "f4", "f6", "f8"])
def test_the_own_format_is_found_out_and_comes_first(make: Make, fmt: str) -> None:
    here = here_of(make(fmt))
    assert current_format(here) == "as-is"
    values = axis_of("format").words(here)["formats"]
    up = [] if fmt == "f8" else ["as-is-to-f8"]
    assert values == ["as-is", *up, "f6", "f7", "f8", "f6-today"]
    assert f"mine is of format {fmt[1]}: a copy of it" in said(here)


@pytest.mark.parametrize("fmt", ["f2", "f4", "f7"])
def test_one_that_was_upgraded_in_place_is_told_by_its_layout(make: Make, fmt: str) -> None:
    here = here_of(make(fmt, upgrade=True))
    assert current_format(here) == "as-is"
    assert ("upgraded from in place" in said(here)) == (fmt != "f7")
    assert axis_of("format").select(["upgraded"], [], here) == []


@pytest.mark.parametrize(("pack", "own"), [(False, "nopack"), (True, "pack")])
def test_the_own_packing_is_found_out(make: Make, pack: bool, own: str) -> None:
    here = here_of(make("f6", shard=2, pack=pack))
    assert isinstance(here.stored, Stored)
    assert here.stored.settings["enable-dir-deltification"] == "false"
    assert here.stored == Stored(6, 2, False, 3, 3 if pack else 0, here.stored.settings)
    assert current_packing(here) == own
    assert f"It has 3 full shards, {3 if pack else 0} packed: {own} is the baseline." in said(here)


def test_of_what_has_no_format_svnadmins_own_is_the_baseline(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "mine.svndump"
    with file.open("wb") as out:
        subprocess.run(["svnadmin", "dump", "-q", make("f6")], stdout=out, check=True)
    here = here_of(file)
    newest = here.machine.newest_format
    assert current_format(here) == newest
    why = axis_of("format").why_not("as-is", {}, here)
    assert why.endswith("a source of kind dump has no format of Subversion's")
    assert said(here).startswith(f"The baseline is {newest}, what `svnadmin create` makes here")
    assert axis_of("format").select(["upgraded"], [], here) == []


def test_berkeley_db_is_refused_with_the_remedy(make: Make) -> None:
    path = make("f6")
    (path / "db" / "fs-type").write_text("bdb\n")
    with pytest.raises(UserError, match=r"is kept in Berkeley DB.*give the dump file"):
        here_of(path).sources["mine"].check()


def test_of_fsx_svnadmins_own_is_the_baseline(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    subprocess.run(["svnadmin", "create", "--fs-type", "fsx", path], check=True)
    subprocess.run(["svn", "mkdir", "-q", "-m", "", f"{path.as_uri()}/trunk"], check=True)
    assert "its file system is fsx, not FSFS" in said(here_of(path))
    why = axis_of("format").why_not("as-is", {}, here_of(path))
    assert why.endswith("its file system is fsx, not FSFS")
    assert current_packing(here_of(path)) == "nopack"


def test_another_repository_than_the_own_one_has_no_copy_as_is(make: Make) -> None:
    here, axis = here_of(make("f6")), axis_of("format")
    assert axis.why_not("as-is", {"repository": {"name": "mine"}}, here) == ""
    for value in ("as-is", "as-is-to-f8"):
        why = axis.why_not(value, {"repository": {"name": "empty"}}, here)
        assert why == "empty is no repository of yours to copy as it is"


def test_a_format_that_svnadmin_does_not_read_has_no_copy_as_is(make: Make) -> None:
    path = make("f6")
    here = here_of(path)
    here.__dict__["stored"] = Stored(9, 1000, True, 0, 0)
    why = axis_of("format").why_not("as-is", {}, here)
    assert (
        why
        == f"the svnadmin here reads formats up to {here.machine.newest_format}, and mine is of f9"
    )
    (path / "db" / "format").write_text("9\nlayout sharded 1000\n")
    with pytest.raises(UserError, match="found format '9'"):
        here_of(path)


def test_a_partly_packed_repository_is_kept_and_packed(make: Make) -> None:
    path = make("f6", shard=2)
    (path / "db" / "revs" / "0.pack").mkdir()
    (path / "db" / "min-unpacked-rev").write_text("2\n")
    here, axis = here_of(path), axis_of("packing")
    assert current_packing(here) == "partly"
    assert axis.words(here)["packings"][0] == "partly"
    parts = {"repository": {"name": "mine", "format": "as-is"}}
    assert axis.why_not("partly", parts, here) == axis.why_not("pack", parts, here) == ""
    assert axis.why_not("nopack", parts, here).endswith("svnadmin cannot unpack")
    loaded = {"repository": {"name": "mine", "format": "f8"}}
    assert "partly packed" in axis.why_not("partly", loaded, here)


@pytest.mark.parametrize(
    ("fmt", "shard", "says"),
    [
        ("f2", 0, "has no shards"),
        ("f3", 2, "packs no repository of f3"),
        ("f6", 0, "no full shard of 1000"),
    ],
)
def test_why_not_pack_as_is_goes_by_its_own_shards(
    make: Make, fmt: str, shard: int, says: str
) -> None:
    parts = {"repository": {"name": "mine", "format": "as-is"}}
    assert says in axis_of("packing").why_not("pack", parts, here_of(make(fmt, shard=shard)))


def test_identity_changes_with_packing_upgrade_and_settings(make: Make) -> None:
    path = make("f6", shard=2)

    def identity() -> str:
        return sources.open_source("mine", {"source": "svn", "path": str(path)}, "my").identity()

    seen = [identity()]
    for action in ("pack", "upgrade"):
        fsfs.run_svnadmin(action, path)
        seen.append(identity())
    with (path / "db" / "fsfs.conf").open("a") as file:
        file.write("[deltification]\ncompression = none\n")
    seen.append(identity())
    assert len(set(seen)) == 4 and identity() == seen[-1]


def test_the_grid_starts_from_what_the_repository_is(make: Make) -> None:
    cold = {"command": "log", "ra": "svn", "config": "default", "cache": "cold"}
    own = {**cold, "format": "current", "packing": "current"}
    others = {**cold, "format": ["upgraded", "f8"], "packing": "if_packable"}
    path = make("f6", shard=2, pack=True)
    _, cells = grid_of(path, own, others)
    of = [(c.axes["format"], c.axes["packing"]) for c in cells if not is_fixed_cost(c.axes)]
    assert of == [("as-is", "pack"), ("as-is-to-f8", "pack"), ("f8", "pack")]


def test_where_no_shard_is_full_others_are_packed_as_the_own_one_is(make: Make) -> None:
    part = {"command": "log", "ra": "svn", "config": "default", "cache": "cold"}
    path = make("f6")
    _, cells = grid_of(path, {**part, "format": ["current", "f8"], "packing": "if_packable"})
    assert {cell.axes["packing"] for cell in cells} == {"nopack"}


def test_each_pair_of_the_default_grid_differs_in_one_thing(make: Make) -> None:
    _, cells = grid_of(make("f6"))
    by_given: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for cell in cells:
        if is_fixed_cost(cell.axes):
            continue
        key = tuple(cell.axes[axis] for axis in ("command", "ra", "cache"))
        by_given.setdefault(key, []).append(cell.axes)
    assert len(by_given) == 10
    for of in by_given.values():
        for axes in of:
            near = [
                sum(axes[a] != other[a] for a in ("format", "packing", "config")) for other in of
            ]
            assert 1 in near, axes


def test_formats_that_svnadmin_does_not_make_are_skipped(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = here_of(make("f6"))
    old = tmp_path / "bin" / "svnadmin"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 1.9.7\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    axis, there = axis_of("format"), Environment(**{**vars_of(here), "machine": Machine()})
    assert there.machine.newest_format == "f7"
    assert axis.why_not("f8", {}, there) == "the svnadmin here makes formats up to f7"
    assert axis.why_not("f4-to-f6", {}, there) == "`svnadmin upgrade` goes to f7 here, not to f6"
    assert axis.why_not("f6-to-f7", {}, there) == ""
    assert axis.why_not("as-is-to-f8", {}, there) == "`svnadmin upgrade` goes to f7 here, not to f8"
    assert axis.words(there)["formats"] == ["as-is", "as-is-to-f7", "f6", "f7", "f6-today"]


def vars_of(here: Environment) -> dict[str, Any]:
    return {name: getattr(here, name) for name in Environment.__dataclass_fields__}


@pytest.mark.parametrize(
    ("fmt", "says"),
    [("f2", "has no shards"), ("f2-to-f8", "has no shards"), ("f3", "packs no repository of f3")],
)
def test_what_cannot_be_packed_is_said(make: Make, fmt: str, says: str) -> None:
    parts = {"repository": {"name": "mine", "format": fmt}}
    assert says in axis_of("packing").why_not("pack", parts, here_of(make("f6")))


def test_own_repositories_have_a_study_of_their_own_unless_one_is_named(make: Make) -> None:
    path = str(make("f6"))

    def studies(**over: Any) -> list[str]:
        return list(load_config(merge(read_yaml(DEFAULT), over), ROOT, [DEFAULT]).studies)

    assert studies(repository=path) == [STUDY]
    assert studies() == ["fsfs-san-2014"]
    assert studies(repository=path, studies=["fsfs-san-2014"]) == ["fsfs-san-2014"]


def lines_of(name: str, file: str) -> set[str]:
    text = (ROOT / "config" / "servers" / name / file).read_text()
    return {line.partition("#")[0].strip() for line in text.splitlines()} - {""}


@pytest.mark.parametrize("name", sorted(SETTINGS))
@pytest.mark.parametrize("file", ["svnserve.args", "httpd.conf"])
def test_a_server_configuration_is_one_setting(name: str, file: str) -> None:
    assert lines_of("default", file) < lines_of(name, file)
    assert len(lines_of(name, file) - lines_of("default", file)) == 1


@pytest.mark.parametrize("file", ["svnserve.args", "httpd.conf"])
def test_the_tuned_one_is_all_of_them(file: str) -> None:
    each = [lines_of(name, file) for name in SETTINGS - {"cache-1024"}]
    assert lines_of("tuned", file) == set().union(*each)
