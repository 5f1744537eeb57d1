"""The study of working copies: published numbers by value, impossible cells, scaled revisions."""

import configparser
import dataclasses
import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from dump_streams import BASE, deleted, file, folder, revision
from project import ROOT, needs, open_folder
from unit.study_grid import published_numbers, published_table, study_environment, study_grid
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.axes import axis_of, client_axes, storage_axes
from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.measure.work import UrlNormaliser, inspect_tree
from vcsbench.plan.plan import Plan
from vcsbench.plan.recipe import draft_recipe, why_not
from vcsbench.programs import Programs
from vcsbench.storages import filesystems
from vcsbench.storages.file_trees import RESERVED_PATHS
from vcsbench.subjects.working_copy import (
    DATABASE,
    WorkingCopyTemplates,
    clone_working_files,
    count_cloned_files,
    list_working_files,
    set_root,
)
from vcsbench.systems.fsfs import run_client

STUDY = "working-copy-2012"
made = partial(study_grid, STUDY)


def test_published_numbers_reach_tables():
    frame = published_numbers(STUDY)
    usage = frame[frame["disk_usage_mib"].notna()]
    assert usage[["reflink", "disk_usage_mib"]].to_numpy().tolist() == [["off", 573], ["on", 361]]
    nfs = frame[(frame["command"] == "checkout") & (frame["filesystem"] == "nfs")]
    assert nfs["elapsed_s"].tolist() == [743.2, 143.2]
    assert set(frame["repo"]) == {"large"} and set(frame["pristines"]) == {"stored"}
    table = published_table(STUDY, "exclusive-vs-default")
    of = table[(table["command"] == "checkout") & (table["filesystem"] == "tmpfs")]
    assert of["value"].tolist() == [pytest.approx(100 * (13.9 / 16.7 - 1))]


@pytest.mark.parametrize(("value", "setting"), [("exclusive", "yes"), ("default", "no")])
def test_command_of_locking_sets_it_in_the_configuration_of_a_client(value, setting):
    action = load_vocabulary().value("sqlite_locking", value).action
    assert action
    parser = configparser.ConfigParser()
    parser.read_string(action.command)
    assert parser["working-copy"]["exclusive-locking"] == setting


CHECKOUT = {"command": "checkout", "repo": "large", "filesystem": "ext4", "reflink": "off"}
CHECKOUT |= {"sqlite_locking": "default", "pristines": "stored"}


def reason(**axes):
    whole = {**CHECKOUT, **axes}
    here, _ = made()
    return why_not(whole, draft_recipe(here.config.studies[STUDY], whole, here), here)


def test_why_not_has_reason_of_impossible_values(monkeypatch):
    assert reason(reflink="on").endswith("has no reflinks") or "right to mount" in reason()
    monkeypatch.setattr(client_axes, "program_version", lambda *program: "1.14.2")
    assert "pristines since 1.15" in reason(pristines="none")
    monkeypatch.setattr(client_axes, "program_version", lambda *program: "1.15.0")
    assert "pristines" not in reason(pristines="none")
    assert "nothing to clone" in reason(pristines="none", reflink="on")
    delayed = reason(network_delay="1ms")
    assert "in a guest" in delayed or "right to mount" in delayed


@pytest.mark.parametrize(
    ("newest", "why"), [("f8", ""), ("f7", "the svnadmin here makes formats up to f7")]
)
def test_format_of_a_default_needs_a_svnadmin_that_makes_it(monkeypatch, newest, why):
    monkeypatch.setattr(Machine, "newest_format", newest)
    here, _ = made()
    draft = draft_recipe(here.config.studies[STUDY], CHECKOUT, here)
    assert draft["repository"]["format"] == "f8"
    assert axis_of("format").why_not("", draft, here) == why
    # The repository of another server is not made here.
    remote = {**draft, "remote": {"host": "svn.example.org", "url": "svn://svn.example.org/x"}}
    assert axis_of("format").why_not("", remote, here) == ""


@pytest.mark.parametrize(("name", "is_skipped"), [("a b", True), ("a:b", True), ("plain", False)])
def test_why_no_reflink_with_a_blank_or_colon_in_the_path(tmp_path, name, is_skipped):
    root = tmp_path / name
    for path in (client_axes.REFLINK_SOURCE, client_axes.REFLINK_LIBRARY):
        (root / path).parent.mkdir(parents=True)
        (root / path).touch()
    here, axis = SimpleNamespace(root=root), axis_of("reflink")
    why = axis.why_not("on", axis.recipe_keys("on", here), here)
    assert ("LD_PRELOAD" in why) is bool(why) is is_skipped


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["storage", "nfs"], []),
        (["storage", "ext4"], [storage_axes.LOOP]),
        (["tmpfs"], [storage_axes.IN_RAM]),
        (["tmpfs", "xfs"], [storage_axes.LOOP, storage_axes.IN_RAM]),
    ],
)
def test_filesystem_limits_of_a_tmpfs_name_no_image(values, expected):
    assert axis_of("filesystem").limits(values, [], {}) == expected


def test_filesystem_folder_of_another_kind_is_refused():
    folders = {"btrfs": "/dev/shm", "elsewhere": "/dev/shm"}
    here, _ = made({"repo": "large", "filesystem": "elsewhere"}, filesystems=folders)
    assert axis_of("filesystem").recipe_keys("elsewhere", here)["filesystem"]["make"] == ""
    with pytest.raises(UserError, match="/dev/shm is tmpfs"):
        axis_of("filesystem").recipe_keys("btrfs", here)


def test_filesystem_folder_that_is_not_mounted_is_skipped(tmp_path, monkeypatch):
    (tmp_path / "fstab").write_text(f"/dev/none {tmp_path} none bind\n")
    monkeypatch.setattr(filesystems, "FSTAB", tmp_path / "fstab")
    axes = {**CHECKOUT, "filesystem": "btrfs"}
    here, _ = made(axes, filesystems={"btrfs": str(tmp_path)})
    draft = draft_recipe(here.config.studies[STUDY], axes, here)
    assert "nothing is mounted there" in why_not(axes, draft, here)


def test_filesystem_folder_where_no_file_can_be_made_is_skipped_with_its_key():
    axes = {**CHECKOUT, "filesystem": "elsewhere"}
    here, _ = made(axes, filesystems={"elsewhere": "/proc"})
    draft = draft_recipe(here.config.studies[STUDY], axes, here)
    why = axis_of("filesystem").why_not("elsewhere", draft, here)
    assert why.startswith("/proc cannot be written (") and why.endswith("in `filesystems`")
    # A storage that cannot be written is a lack of the whole run (test_trials.py).
    on_storage = {**draft, "storage": {"name": "disk", "path": "/proc", "shelf": "disk"}}
    assert axis_of("filesystem").why_not("elsewhere", on_storage, here) == ""
    # A report of existing results makes no file, and a node of a cluster has another folder of this name.
    report, _ = made(axes, filesystems={"elsewhere": "/proc"}, measure="nothing")
    for other in (report, dataclasses.replace(here, is_elsewhere=True)):
        assert axis_of("filesystem").why_not("elsewhere", draft, other) == ""


@needs("svn", "svnadmin")
def test_svn_folder_in_an_older_revision_skips_updates_from_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, dump = tmp_path / "mine", tmp_path / "dump"
    stream = BASE + folder(b"trunk/.svn") + file(b"trunk/a") + revision(2)
    dump.write_bytes(stream + revision(3) + deleted(b"trunk/.svn"))
    for words in (["create", path], ["load", "-q", "-F", dump, path]):
        subprocess.run(["svnadmin", *words], check=True)
    cells = {"filesystem": "tmpfs", "reflink": "off", "pristines": "stored"}
    cells["command"] = ["checkout", "update-null", "update-1000"]
    plan = Plan(study_environment(STUDY, cells, repository=str(path)))
    skips = {cell.axes["command"]: cell.skip for cell in plan.grids[STUDY]}
    assert skips["checkout"] == skips["update-null"] == ""
    why = skips["update-1000"]
    assert "1,000 revisions" in why and f"1 path {RESERVED_PATHS}" in why
    templates = templates_of(path, "trunk")
    assert os.listdir(templates.export(3)["path"]) == ["a"]
    assert os.path.exists(f"{templates.working_copy(3)['path']}/a")
    with pytest.raises(UserError, match=re.escape(why)):
        templates.working_copy(2)


@needs("svn", "svnadmin")
def test_svn_folder_that_came_later_skips_updates_from_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine"
    url = f"file://{path}"
    subprocess.run(["svnadmin", "create", path], check=True)
    for words in (["mkdir", f"{url}/a"], ["mkdir", f"{url}/b"], ["mkdir", f"{url}/trunk"]):
        subprocess.run(["svn", *words, "-q", "-m", ""], check=True)
    cells = {"filesystem": "tmpfs", "reflink": "off", "pristines": "stored"}
    cells["command"] = ["checkout", "update-1000"]
    plan = Plan(study_environment(STUDY, cells, repository=str(path)))
    skips = {cell.axes["command"]: cell.skip for cell in plan.grids[STUDY]}
    assert skips["checkout"] == ""
    assert skips["update-1000"].startswith("mine has no trunk in revision 2 (")
    # Of other sources, this is known only when the repository is loaded.
    subprocess.run(["svn", "mv", f"{url}/b", f"{url}/moved", "-q", "-m", ""], check=True)
    for tree in ("trunk", "moved"):
        with pytest.raises(UserError, match=f"^mine has no {tree} in revision 2 .* TREE="):
            templates_of(path, tree).working_copy(2)
    assert os.listdir(templates_of(path, "trunk").working_copy(3)["path"]) == [".svn"]


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b"])
def test_list_working_files_in_a_path_with_signs_of_a_url_reads_its_database(tmp_path, name):
    path = tmp_path / name
    (path / ".svn").mkdir(parents=True)
    with closing(sqlite3.connect(path / DATABASE)) as database, database:
        database.execute("CREATE TABLE nodes (local_relpath, checksum, op_depth, kind, presence)")
        database.execute("INSERT INTO nodes VALUES ('a', '$sha1$0a4d', 0, 'file', 'normal')")
    assert list_working_files(path) == [("a", "$sha1$0a4d")]


LINE = "cloned={} passed_on=3 failed={} errno={}\n"


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("", "did nothing in some run"),
        (LINE.format(7, 0, 0), "did nothing in some run"),
        (LINE.format(7, 0, 0) + LINE.format(0, 5, 95), "Operation not supported, 5 times"),
        (LINE.format(0, 0, 0) * 2, "cloned no file"),
        (LINE.format(9, 0, 0) + LINE.format(7, 0, 0) * 2, ""),
    ],
)
def test_cloned_files_counts_timed_runs(log, error, tmp_path):
    (tmp_path / "reflinks").write_text(log)
    with pytest.raises(UserError, match=error) if error else nullcontext():
        assert count_cloned_files(tmp_path, {"reflink": "x", "runs": 2}) == [7, 7]
    assert count_cloned_files(tmp_path, {"runs": 2}) is None


@needs("svn", "svnadmin")
def test_clone_on_a_file_system_without_clones_names_the_file():
    with open_folder("/dev/shm") as shared:
        work = shared / "work"
        subprocess.run(["svnadmin", "create", shared / "mine"], check=True)
        subprocess.run(["svn", "checkout", "-q", f"file://{shared}/mine", work], check=True)
        (work / "file").write_text("x")
        subprocess.run(["svn", "add", "-q", work / "file"], check=True)
        subprocess.run(["svn", "commit", "-q", "-m", "x", work], check=True)
        expected = f"^{work}/file: this file system refuses to clone .*`reflink: on`"
        with pytest.raises(UserError, match=expected):
            clone_working_files(work)


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """Two copies of a repository. Each of its two revisions adds a file with the URL as a keyword."""
    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    subprocess.run(["svnadmin", "create", first], check=True)
    work = tmp_path / "work"
    subprocess.run(["svn", "checkout", "-q", f"file://{first}", work], check=True)
    for name in ("file", "other"):
        (work / name).write_text("$HeadURL$\n")
        subprocess.run(["svn", "add", "-q", work / name], check=True)
        subprocess.run(["svn", "propset", "-q", "svn:keywords", "HeadURL", work / name], check=True)
        subprocess.run(["svn", "commit", "-q", "-m", name, work], check=True)
    shutil.copytree(first, second)
    return first, second


def templates_of(path, tree=""):
    recipe = {"input": "repository", "output": "working_copy", "argv": "", "binaries": {}}
    recipe |= {"storage": {"path": str(path.parent)}, "revisions_behind": 1000}
    recipe |= {"repository": {"name": path.name, "identity": "x"}}
    repository = SimpleNamespace(path=path, tree=tree, root=ROOT)
    return WorkingCopyTemplates(recipe, repository, Programs())


@needs("svn", "svnadmin")
def test_template_that_somebody_updated_is_made_again(copies):
    first, _ = copies
    templates = templates_of(first)
    record = templates.working_copy(1)
    # A new template would have other times.
    assert templates.working_copy(1) == record
    run_client(Programs(), "update", record["path"])
    path = templates.working_copy(1)["path"]
    assert run_client(Programs(), "info", "--show-item", "revision", path) == "1"


@needs("svn", "svnadmin")
def test_templates_have_the_url_of_their_keywords(copies):
    """Copies share templates. An update leaves the old URL in files that it does not touch."""
    first, second = copies
    record = templates_of(first).working_copy(1)
    template, old = record["path"], record["url"]
    updated = first.parent / "updated"
    shutil.copytree(template, updated, symlinks=True)
    new = f"file://{second}"
    set_root(updated, new)
    assert run_client(Programs(), "info", "--show-item", "url", updated) == new
    run_client(Programs(), "update", updated)
    assert old in (updated / "file").read_text() and new in (updated / "other").read_text()
    export = templates_of(second).export(2)
    tree, url = Path(export["path"]), export["url"]
    assert templates_of(first).export(2) == export and url == new
    assert inspect_tree(updated, UrlNormaliser(new, old)) == inspect_tree(tree, UrlNormaliser(url))
    assert inspect_tree(updated, UrlNormaliser(new)) != inspect_tree(tree, UrlNormaliser(url))
