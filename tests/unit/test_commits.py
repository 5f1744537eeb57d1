"""Put back what a commit has changed, in repositories of each format, and compare the work of commits."""

import io
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from project import needs, write_program
from shards import set_shard_size
from vcsbench import formats
from vcsbench.axes import AXES
from vcsbench.config.study import ChangeName
from vcsbench.deployment import hooks
from vcsbench.errors import UserError
from vcsbench.evidence import same_work
from vcsbench.evidence.run_columns import trace_columns
from vcsbench.measure import run_evidence
from vcsbench.measure.work import UrlNormaliser, inspect_commit, read_committed
from vcsbench.prepare.copies import read_content
from vcsbench.records import complete_context
from vcsbench.subjects.changed_working_copy import ADDED_TEXT, ChangedWorkingCopy
from vcsbench.subjects.committed_repository import CommittedRepository
from vcsbench.subjects.folder_backup import FolderBackup
from vcsbench.systems import fsfs

pytestmark = needs("svn", "svnadmin")

FILES = 12


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def make_repository(path, fmt, is_packed=False):
    """Make a repository with three full shards of four revisions: the next one begins a shard."""
    fsfs.create(path, fmt)
    if formats.read_shape(path).shard:
        set_shard_size(path, 4)
    tree = path.with_name(f"{path.name}.tree")
    tree.mkdir()
    for number in range(FILES):
        (tree / f"file{number:02}").write_text(f"{number}\n" * 100)
    run("svn", "import", "-q", "-m", "", tree, f"{path.as_uri()}/trunk")
    for number in range(10):
        run("svn", "mkdir", "-q", "-m", "", f"{path.as_uri()}/trunk/folder{number}")
    if is_packed:
        fsfs.run_svnadmin("pack", path)
    return path


class Cell:
    """The subjects of a cell that commits to a copy of a repository."""

    def __init__(self, tmp_path, repository, change="one-file", **recipe):
        root = tmp_path / "checkout"
        record = root / "results" / "repositories" / "disk.json"
        record.parent.mkdir(parents=True)
        place = tmp_path / "storage"
        self.prepared = shutil.copytree(repository, place / "repositories" / "mine.f8.nopack.1")
        record.write_text(json.dumps({"place": str(place), "copies": 1, "layout": {"apart": []}}))
        self.recipe = {
            "cell": "one",
            "input": "committed_repository",
            "output": "changed_working_copy",
            "change": change,
            "targets": str(tmp_path),
            "time_limit_s": 600.0,
            "storage": {"path": str(tmp_path), "shelf": "disk"},
            "build": {"client": {}},
            "repository": {
                **{"name": "mine", "format": "f8", "packing": "nopack", "identity": "x"},
                **{"scale": 0.005, "packed": False},
            },
            **recipe,
        }
        self.input = CommittedRepository(self.recipe, 1, tmp_path, root)
        # Instead of check(), which compares the prepared copy with its metadata.
        self.input.metadata = {"tree": "trunk", "folder": "", "youngest": 0, "bytes": 1}
        self.input.path.parent.mkdir(parents=True)
        self.output = ChangedWorkingCopy(self.recipe, 1, tmp_path, root)
        self.output.input = self.input
        self.output.origin = lambda: f"{self.input.path.as_uri()}/trunk"

    def restore(self):
        self.input.restore()
        self.output.restore()

    def commit(self):
        run("svn", "commit", "-q", "-m", "commit", self.output.words()["working_copy"])

    def work(self):
        self.input.check_run()
        self.output.check_run()
        return inspect_commit(self.output.inspected, UrlNormaliser())


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "mine", "f8")


@pytest.fixture
def cell(tmp_path, repository):
    cell = Cell(tmp_path, repository)
    cell.restore()
    return cell


FORMATS = [("f1", False), ("f3", False), ("f4", True), ("f6", False), ("f6", True)]
FORMATS += [("f7", False), ("f7", True), ("f8", False), ("f8", True), ("f6-to-f8", True)]


@pytest.mark.parametrize(("fmt", "is_packed"), FORMATS)
def test_commit_to_each_format_is_put_back_to_the_same_digest(tmp_path, fmt, is_packed):
    repository = make_repository(tmp_path / "mine", fmt, is_packed)
    shape = formats.read_shape(repository)
    assert shape.packed == (3 if is_packed else 0)
    cell = Cell(tmp_path, repository, "thousand-files")
    original = read_content(cell.prepared)
    cell.restore()
    before = read_content(cell.input.path).digest
    works = []
    for _ in range(3):
        cell.commit()
        assert read_content(cell.input.path).digest != before
        # A new shard begins with the revision.
        assert cell.input.grown_bytes() > 0
        works.append(cell.work())
        # Once with the commit, and once without it.
        fsfs.run_svnadmin("verify", "-q", cell.input.path)
        cell.restore()
        assert read_content(cell.input.path).digest == before
        fsfs.run_svnadmin("verify", "-q", cell.input.path)
    # 1,000 files at the scale 0.005.
    assert works[0] == works[1] == works[2] and works[0]["paths"] == 5
    assert works[0]["youngest"] == shape.youngest + 1 == 12
    assert read_content(cell.prepared) == original
    cell.input.discard()
    cell.output.discard()
    assert not list((tmp_path / "storage" / "targets").glob("*"))


def test_unfinished_and_foreign_changes_are_removed_or_refused(cell):
    path = cell.input.path
    before = read_content(path).digest
    # A killed commit leaves a transaction. mod_dav_svn leaves activities.
    run("svn", "lock", "-q", f"{path.as_uri()}/trunk/file01")
    (path / "db" / "transactions" / "11-c.txn" / "below").mkdir(parents=True)
    (path / "db" / "txn-protorevs" / "11-c.rev").write_text("x")
    (path / "dav" / "activities.d").mkdir(parents=True)
    (path / "dav" / "activities.d" / "a").write_text("x")
    (path / "db" / "rep-cache.db").unlink()
    (path / "db" / "current").write_text("99\n")
    cell.restore()
    assert read_content(path).digest == before
    # No commit changes a revision.
    revision = path / "db" / "revs" / "0" / "1"
    revision.chmod(0o644)
    with revision.open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match="revs/0/1: was changed"):
        cell.restore()


def test_backup_of_folder_restores_modes_times_and_links(tmp_path):
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").write_text("1")
    (folder / "other").write_text("2")
    (folder / "link").symlink_to("other")
    os.utime(folder / "below" / "file", ns=(5, 5))
    backup = FolderBackup(folder, tmp_path / "copies", ["below/file"])
    digest = backup.digest
    (folder / "below" / "file").chmod(0o700)
    (folder / "added").symlink_to("/")
    backup.put_back()
    status = (folder / "below" / "file").stat()
    assert (status.st_mtime_ns, status.st_mode & 0o777) == (5, 0o644)
    assert sorted(os.listdir(folder)) == ["below", "link", "other"] and backup.digest == digest
    (tmp_path / "copies" / "0").write_text("3")
    (folder / "below" / "file").write_text("4")
    with pytest.raises(UserError, match="cannot be put back"):
        backup.put_back()
    (folder / "link").unlink()
    with pytest.raises(UserError, match="link: was changed or removed"):
        backup.put_back()


@pytest.mark.parametrize("change", get_args(ChangeName))
def test_working_copy_is_put_back_and_its_change_has_all_files(tmp_path, repository, change):
    cell = Cell(tmp_path, repository, change)
    cell.restore()
    path = cell.output.working_copy
    before = read_content(path).digest
    states = run("svn", "status", path).splitlines()
    cell.commit()
    assert cell.output.facts()["commit"] == {"change": change, "files": len(states)}
    work = cell.work()
    cell.restore()
    assert read_content(path).digest == before
    assert work["paths"] == len(states) == (5 if change == "thousand-files" else 1)
    changed = [path / line.split()[-1] for line in states]
    if change == "large-binary":
        assert states[0][0] == "A" and changed[0].stat().st_size == 50_000_000
    else:
        assert {line[0] for line in states} == {"M"}
        assert all(file.read_bytes().endswith(ADDED_TEXT) for file in changed)
    if change == "one-file":
        assert changed[0].name == f"file{FILES // 2:02}"


def test_client_of_a_build_has_its_libraries_outside_of_the_timed_runs(tmp_path, repository):
    prefix, record = tmp_path / "build", tmp_path / "record"
    text = f'echo "$LD_LIBRARY_PATH" >>{record}\nexec {shutil.which("svn")} "$@"\n'
    write_program(prefix / "bin" / "svn", f"#!/bin/sh\n{text}")
    client = {"prefix": str(prefix), "library_path": str(tmp_path / "lib")}
    cell = Cell(tmp_path, repository, "large-binary", build={"client": client})
    cell.restore()
    cell.commit()
    assert cell.output.facts()["commit"]["files"] == 1
    # Two checkouts, an addition and a status.
    assert record.read_text().splitlines() == [client["library_path"]] * 4


def test_checkout_before_commits_has_the_time_limit_of_the_cell(tmp_path, repository):
    write_program(tmp_path / "build" / "bin" / "svn", "#!/bin/sh\nexec sleep 60\n")
    build = {"client": {"prefix": str(tmp_path / "build")}}
    cell = Cell(tmp_path, repository, build=build, time_limit_s=0.3)
    with pytest.raises(UserError, match=r"svn checkout -q: took longer than 0\.3 s"):
        cell.restore()


def test_tree_with_too_few_files_gets_new_ones(tmp_path, repository):
    cell = Cell(tmp_path, repository, "thousand-files")
    cell.recipe["repository"]["scale"] = 0.02
    cell.restore()
    states = [line[0] for line in run("svn", "status", cell.output.working_copy).splitlines()]
    assert sorted(states) == ["A"] * (20 - FILES) + ["M"] * FILES


def test_run_with_none_or_two_commits_or_with_changes_left_is_an_error(cell):
    with pytest.raises(UserError, match=r"committed nothing: .* 11"):
        cell.output.check_run()
    with pytest.raises(UserError, match="after the commit: M "):
        cell.output.facts()
    for number in range(2):
        run("svn", "mkdir", "-q", "-m", "", f"{cell.input.path.as_uri()}/{number}")
    with pytest.raises(UserError, match="committed 2 revisions"):
        cell.output.check_run()


@pytest.mark.parametrize(
    ("key", "reason"),
    [("filesystem", "axis filesystem"), ("clients", "axis clients"), ("remote", "own copies only")],
)
def test_commit_with_a_key_that_it_cannot_have_is_refused(tmp_path, repository, key, reason):
    with pytest.raises(UserError, match=reason):
        Cell(tmp_path, repository, **{key: {"host": "example"}})


def test_commit_to_another_machine_is_refused():
    remote = {"host": "example", "url": "svn://example/{repo}"}
    draft = {"remote": remote, "access": {"scheme": "svn"}, "input": "committed_repository"}
    assert "own copies only" in AXES["access"].why_not("svn", draft, None)
    assert AXES["access"].why_not("svn", {**draft, "input": "repository"}, None) == ""


@pytest.mark.parametrize("value", ["none", "shell", "python", ""])
def test_private_copy_has_only_the_hooks_of_its_cell(tmp_path, repository, value):
    canary = repository / "hooks" / "pre-commit"
    canary.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\nexit 1\n")
    canary.chmod(0o755)
    assert hooks.why_unknown_hooks(value or "none") == "" == hooks.why_no_hooks(value, "/")
    keys = hooks.hook_keys(value)
    assert set(keys) == ({"hooks", "hook_program"} if value in ("shell", "python") else set())
    cell = Cell(tmp_path, repository, **keys)
    cell.restore()
    names = sorted(os.listdir(cell.input.path / "hooks"))
    assert names == (["post-commit", "pre-commit"] if keys else [])
    cell.commit()
    # Traffic commits several times in one run.
    run("svn", "mkdir", "-q", "-m", "", f"{cell.input.path.as_uri()}/second")
    cell.input.check_run()
    assert not (tmp_path / "canary").exists()
    if keys:
        assert os.path.isabs(keys["hook_program"])
        (cell.input.path / "post-commit.ran").unlink()
        with pytest.raises(UserError, match="the hook post-commit has not run"):
            cell.input.check_run()
    cell.restore()


def test_hooks_of_an_unknown_name_or_on_a_noexec_mount_are_refused():
    assert "Use none, shell, python" in hooks.why_unknown_hooks("perl")
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    noexec = [fields[1] for fields in mounts if "noexec" in fields[3].split(",")]
    if noexec:
        assert "noexec" in hooks.why_no_hooks("shell", noexec[0])
        assert hooks.why_no_hooks("none", noexec[0]) == ""


DUMP = """SVN-fs-dump-format-version: 2

UUID: {uuid}

Revision-number: 7
Prop-content-length: {length}
Content-length: {length}

{properties}PROPS-END

Node-path: trunk/file
Node-kind: file
Node-action: change
Text-content-length: 6
Text-content-md5: 0123
{sha1}Content-length: 6

{text}

"""


def committed(author="", uuid="1", sha1="", text="text1\n"):
    properties = f"K 10\nsvn:author\nV {len(author)}\n{author}\n" if author else ""
    length = len(properties) + len("PROPS-END\n")
    text = DUMP.format(uuid=uuid, length=length, properties=properties, sha1=sha1, text=text)
    return read_committed(io.BytesIO(text.encode()), UrlNormaliser())


def test_work_of_commit_is_without_author_and_uuid_and_with_content():
    work = committed()
    assert (work["youngest"], work["paths"]) == (7, 1)
    assert committed("jane", uuid="2", sha1="Text-content-sha1: 89\n") == work
    assert committed(text="text2\n")["digest"] != work["digest"]
    assert read_committed(io.BytesIO(b"Revision-number: 7\n\n"), UrlNormaliser()) == {}


@pytest.mark.parametrize(
    ("changes", "needed", "counted"),
    [
        ({}, 4, 14),
        ({"storage": {"filesystem": "tmpfs"}}, 0, None),
        ({"storage": {"filesystem": "ext4", "write_cache": "write through"}}, 4, None),
        ({"work_kind": "tree"}, 0, None),
    ],
)
def test_flushes_of_commit_are_those_of_one_revision_on_the_storage(changes, needed, counted):
    disk = {"filesystem": "ext4", "write_cache": "write back"}
    # The working copy is in memory.
    facts = {"work_kind": "commit", "storage": disk, "target_storage": {"filesystem": "tmpfs"}}
    context = complete_context({**facts, **changes, "argv": ["svn", "commit"]})
    run = {"work": {"youngest": 3000}, "evidence": {"device_flushes": 14}}
    assert same_work.count_needed_flushes(run, context) == needed
    assert same_work.count_flushes(run, context) == counted


def test_flush_calls_are_summed():
    client = {"fsync": 2, "fdatasync": 1, "mmap": 9}
    server = {"fsync": 1, "sync_file_range": 5}
    assert trace_columns({"client": client, "server": server})["flush_calls"] == 9


@pytest.mark.parametrize(
    ("kind", "options", "runs_hooks", "pid_after", "has_changed"),
    [
        ("svnserve", ["--threads"], False, 1, True),
        ("svnserve", ["--threads"], True, 1, False),
        ("svnserve", ["--threads"], True, 2, True),
        ("svnserve", ["-d"], True, 1, True),
        ("httpd", [], True, 1, False),
    ],
)
def test_server_with_ended_processes_has_changed_unless_they_were_hooks(
    kind, options, runs_hooks, pid_after, has_changed
):
    server = SimpleNamespace(kind=kind, argv=["/usr/bin/server", *options])
    before = SimpleNamespace(server=SimpleNamespace(pids=[1], ended_faults=3))
    after = SimpleNamespace(server=SimpleNamespace(pids=[pid_after], ended_faults=5))
    changed = run_evidence._have_server_processes_changed(server, before, after, runs_hooks)
    assert changed == has_changed
