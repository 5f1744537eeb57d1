"""Boots of a guest, with a script in place of its kernel, and the folders that it gets."""

import os
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

import project
from vcsbench.errors import UserError
from vcsbench.run import cell_job
from vcsbench.storages import guest
from vcsbench.storages.workdir import WorkDir

PANIC = "Kernel panic - not syncing: Attempted to kill init!"


class FakeGuest:
    """A guest with a shell command for each boot, run in its `out`. The last one is repeated."""

    def __init__(self, path, *boots):
        self.path = path
        cases = " ".join(f"{number}) {command} ;;" for number, command in enumerate(boots, 1))
        select = f"case $(wc -l <../boots) in\n{cases} *) {boots[-1]} ;;\nesac\n"
        script = f"#!/bin/sh\ncd {path}/own/out; echo >>../boots\n{select}"
        project.write_program(path / guest.TOOLS / "usr/bin/linux", script)

    def run(self):
        folder = self.path / "own"
        folder.mkdir()
        with (folder / "image").open("wb") as file:
            file.truncate(16 << 20)
        return guest.run_in_guest(self.path, folder, ["true"], folder / "image", limit_s=10)

    @property
    def boots(self):
        return len((self.path / "own/boots").read_text())


@project.needs("mkfs.ext4", "taskset", "setpriv")
@pytest.mark.parametrize(
    ("boots", "end", "number"),
    [
        ((f"echo '{PANIC}'", "echo 3 >code"), "", 2),
        ((f"echo '{PANIC}'; echo trace; echo of; echo calls",), rf"{PANIC}\. Run again", 2),
        ((f": >began; echo '{PANIC}'",), rf"{PANIC}\. Run again", 1),
        (("echo 'no such device'",), r"no such device\. Run again", 1),
    ],
)
def test_run_in_guest_boots_again_only_after_a_panic_before_its_start(tmp_path, boots, end, number):
    booted = FakeGuest(tmp_path, *boots)
    with pytest.raises(UserError, match=end) if end else nullcontext():
        assert booted.run() == 3
    assert booted.boots == number


def test_measured_round_gives_the_guest_work_folders_and_no_whole_storage(tmp_path, monkeypatch):
    for name in ("scratch", "real", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "storage").symlink_to(tmp_path / "real")
    given = []

    def run_in_guest(*_, reads, **options):
        given.extend(map(str, reads))

    subject = SimpleNamespace(prepare=lambda: 1 << 20)
    monkeypatch.setitem(cell_job.SUBJECTS, "fake", lambda *_: subject)
    monkeypatch.setattr(guest, "run_in_guest", run_in_guest)
    monkeypatch.setattr(cell_job, "_read_guest_result", lambda *_: None)
    recipe = {
        **{"input": "fake", "output": "", "time_limit_s": 1},
        "storage": {"path": str(tmp_path / "storage")},
        "filesystem": {"scratch": str(tmp_path / "scratch")},
        "build": {"client": {"prefix": ""}, "server": {"prefix": "/opt/svn"}},
    }
    root = tmp_path / "root"
    cell_job._measure_in_guest(root, recipe, 1, tmp_path / "folder")
    # A link to a storage stays, because the guest finds the work folder by it.
    name = WorkDir(tmp_path, root).path.name
    assert given == [f"{tmp_path}/storage/{name}", f"{tmp_path}/scratch/{name}", "/opt/svn"]


@pytest.mark.parametrize(("uid", "reason"), [(1000, "takes root"), (0, "NFS tools are not here")])
def test_why_unavailable_without_root_or_tools_names_these(tmp_path, monkeypatch, uid, reason):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert reason in guest.why_unavailable(tmp_path)


def test_hidden_folders_of_a_work_folder_in_tmp_leave_tmp_to_the_guest():
    assert guest._hidden_folders(["/tmp/vcsbench-1a2b3c4d", "/usr"]) == ["/tmp/vcsbench-1a2b3c4d"]
