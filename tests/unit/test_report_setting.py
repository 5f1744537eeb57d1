"""What was measured where, from the contexts beside the results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from unit.report_files import default_study
from vcsbench.config.study_models import Command
from vcsbench.report import setting as settings
from vcsbench.report.setting import Setting, clearing_sentences, commands_as_timed, version_list

COMMAND = Command(argv="{svn} log", work="log")


def summarise(contexts: Iterable[dict[str, Any]]) -> Setting:
    return settings.summarise(contexts, default_study())


def context(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "axes": {"command": "log", "config": "slow", "format": "f7", "packing": "pack"},
        "round": number,
        "copy": number,
        "started_at": f"2026-11-21T07:0{number}:00Z",
        "argv_template": "{svn} log {url}",
        "server": {"kind": "svnserve", "argv": ["svnserve", "--listen-port", str(4000 + number)]},
        "server_files": {"svnserve.args": "--threads"},
        "host": {
            "name": "here",
            "cpu": "A processor",
            "cores": 2,
            "memory_bytes": 4 << 30,
            "virtualized": "",
        },
        "storage": {"name": "disk", "path": "/var/tmp", "filesystem": "ext4", "rotational": True},
        "versions": {"svn": "1.14.2", "httpd": ""},
        "repository": {
            "name": "ruby",
            "scale": 0.13,
            "format": "f7",
            "youngest": 6000,
            "bytes": 3 << 20,
        },
        "runs": [{"run": 1, "certificate": {"cache_cleared_by": "drop-caches"}}],
        **changes,
    }


def test_a_storage_is_told_as_the_system_has_it() -> None:
    disk = {"name": "disk", "path": "/d", "filesystem": "ext4", "device": "/dev/vda"}
    disk |= {"rotational": False, "scheduler": "mq-deadline", "mount_options": "rw,relatime"}
    found = summarise([{"storage": {**disk, "free_bytes": n << 30}} for n in (7, 5, 6)])
    assert list(found.storages) == [
        "disk: /d, ext4, /dev/vda, not rotational, scheduler mq-deadline, mounted rw,relatime, "
        "5.00 GiB free"
    ]


def test_equal_things_are_told_once() -> None:
    setting = summarise(context(number) for number in (1, 2, 3))
    assert list(setting.hosts) == ["here: A processor, 2 cores, 4.00 GiB of memory, not virtual"]
    assert list(setting.storages) == ["disk: /var/tmp, ext4, rotational"]
    [table] = setting.subjects.tables()
    assert (table.kind, table.columns) == (
        "repository",
        ["Repository", "Format", "Revisions", "Size"],
    )
    assert table.rows == [["ruby", "f7", "6\N{NARROW NO-BREAK SPACE}000", "3.00 MiB"]]
    assert (setting.rounds, setting.copies, setting.cell_rounds, setting.runs) == (3, 3, 3, 3)
    assert setting.first and setting.last
    assert (setting.last - setting.first).total_seconds() == 120


def test_cells_may_have_been_measured_in_more_and_in_fewer_rounds() -> None:
    rounds = {"often": 7, "seldom": 5}
    setting = summarise(
        {**context(n), "cell": cell} for cell, most in rounds.items() for n in range(1, most + 1)
    )
    assert (setting.fewest_rounds, setting.rounds) == (5, 7)


def test_a_server_differs_by_its_files_not_by_its_port() -> None:
    edited = context(3, server_files={"svnserve.args": "--threads --memory-cache-size 256"})
    setting = summarise([context(1), context(2), edited])
    assert [c.name for c in setting.configurations] == ["slow", "slow"]
    assert setting.configurations[0].started == {"svnserve": "svnserve --listen-port 4001"}
    assert "256" in setting.configurations[1].files["svnserve.args"]


def test_files_of_a_configuration_are_gathered_from_the_cells_that_use_them() -> None:
    over_http = context(2, server={"kind": "httpd"}, server_files={"httpd.conf": "SVNBlockRead on"})
    [configuration] = summarise([context(1), over_http]).configurations
    assert sorted(configuration.files) == ["httpd.conf", "svnserve.args"]
    assert list(configuration.started) == ["svnserve", "httpd"]


def test_repository_is_described_with_what_its_source_noted() -> None:
    noted = {
        "name": "mine",
        "source": "git",
        "description": "all of main",
        "scale": 1,
        "notes": ["2 left out."],
    }
    setting = summarise([context(repository=noted)])
    assert setting.subjects.about == {("repository", "mine"): "all of main, scale 1; 2 left out"}


def test_two_machines_are_both_named() -> None:
    setting = summarise([context(1), context(2, host={"name": "there", "virtualized": "QEMU"})])
    assert setting.host_names == ["here", "there"]
    assert list(setting.hosts)[1] == "there: a guest (QEMU)"


def test_versions_that_changed_are_counted() -> None:
    newer = context(3, versions={"svn": "1.14.5"})
    setting = summarise([context(1), context(2), newer])
    assert version_list(setting) == [("svn", "1.14.2 (2 cell-rounds), 1.14.5 (1 cell-round)")]


def test_commands_stand_in_the_studys_order() -> None:
    dump = context(2, axes={"command": "dump"}, argv_template="{svnadmin} dump")
    said = commands_as_timed(
        summarise([dump, context(1)]), dict.fromkeys(("log", "export", "dump"), COMMAND)
    )
    assert said == [("log", "{svn} log {url}"), ("dump", "{svnadmin} dump")]


def test_ways_of_clearing_are_counted() -> None:
    evicted = context(2, runs=[{"run": 1, "certificate": {"cache_cleared_by": "evict"}}] * 2)
    said = clearing_sentences(summarise([context(1), evicted]))
    assert said == [
        "Cleared by evicting the files one by one (vmtouch) for 2 runs.",
        "Cleared by emptying the kernel's caches (drop_caches) for 1 run.",
    ]
    hot = context(runs=[{"run": 1, "certificate": {"cache_cleared_by": ""}}])
    assert clearing_sentences(summarise([hot])) == ["No run had its caches cleared."]


def test_scales_below_the_published_one_are_found() -> None:
    setting = summarise([context(1), context(2, repository={"name": "bsd", "scale": 1})])
    assert setting.subjects.smaller(1) == [("ruby", 0.13)]
    assert setting.subjects.smaller(None) == []


def test_a_bare_context_is_no_obstacle() -> None:
    setting = summarise([{}, {"axes": None, "server": None, "runs": None, "started_at": None}])
    assert setting.cell_rounds == 2
    assert setting.first is None
    assert not setting.configurations


def test_where_a_command_writes_is_said():
    storage = {"name": "disk", "path": "/var/tmp/vcsbench-1", "filesystem": "ext4"}
    on_it = summarise([{"storage": storage, "targets": "/var/tmp"}])
    assert list(on_it.targets) == ["/var/tmp, the storage itself"]
    elsewhere = summarise(
        [{"storage": storage, "targets": "/dev/shm"}, {"storage": storage, "targets": ""}]
    )
    assert len(elsewhere.targets) == 1 and "/dev/shm, not the storage" in next(
        iter(elsewhere.targets)
    )


def test_how_the_copies_lie_is_said_once_and_not_hidden() -> None:
    layout = {"verdict": "apart", "sentence": "do NOT lie interleaved: far", "apart": ["a"]}
    setting = summarise(context(number, layout=layout) for number in (1, 2))
    assert list(setting.layouts) == ["disk: the copies do NOT lie interleaved: far."]
    assert not summarise([context()]).layouts


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            {"filesystem": "btrfs", "made": True, "bytes": 1 << 30, "direct_io": True},
            "fs: btrfs, made for each measurement, in an image of 1.00 GiB with direct I/O, mounted rw",
        ),
        (
            {"filesystem": "xfs", "made": True, "bytes": 1 << 30, "direct_io": False},
            "fs: xfs, made for each measurement, in an image of 1.00 GiB, through this system's page "
            "cache, mounted rw",
        ),
        (
            {"filesystem": "tmpfs", "made": True, "bytes": 1 << 30, "direct_io": None},
            "fs: tmpfs, made for each measurement, 1.00 GiB, mounted rw",
        ),
        (
            {"filesystem": "nfs4", "made": False, "path": "/mnt/x", "device": "host:/x"},
            "fs: /mnt/x, nfs4, host:/x, mounted rw",
        ),
    ],
)
def test_what_a_working_copy_is_written_to_is_said(told, sentence):
    context = {
        "axes": {"filesystem": "fs"},
        "targets": "/var/tmp",
        "working_copy": {"filesystem": {**told, "mount_options": "rw"}},
    }
    study = default_study("working-copy-2012")
    found = settings.summarise([context], study)
    assert found.targets == [sentence] and not found.subjects.names


def test_a_server_elsewhere_is_said():
    study = default_study("working-copy-2012")
    remote = {"host": "there", "url": "svn://there/it"}
    (said,) = settings.summarise([{"remote": remote}], study).elsewhere
    assert said.startswith("The server is on there (svn://there/it)") and "not measured" in said


def test_a_program_of_ours_is_named_where_a_command_runs_it() -> None:
    setting = summarise(
        [{**context(1), "axes": {"command": "log"}, "argv_template": "{program} {source}"}]
    )
    assert commands_as_timed(setting, {"log": COMMAND.model_copy(update={"program": "naive"})})[0][
        1
    ] == ("python strategies/naive.py {source}")
