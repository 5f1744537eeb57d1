"""Loading: advised commands and `load` cells as typed, signals, and the largest folder of a tree."""

import json
import os
import runpy
import signal
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from dump_streams import BASE, DATE, HEAD, file, folder, revision
from project import CONFIG, ROOT, needs, open_folder, write_program
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.measure.cell_setup import fill_template
from vcsbench.prepare import loader
from vcsbench.prepare.loader import choose_staging, load_source
from vcsbench.prepare.repositories import has_dump
from vcsbench.prepare.subversion_loader import make_dump, summarize_tree
from vcsbench.sources.base import SizeEstimate
from vcsbench.sources.dump_source import DumpSource
from vcsbench.storages.filesystems import free_bytes
from vcsbench.storages.workdir import STAGING, WorkDir

pytestmark = needs("svn", "svnadmin", "svnlook")

# Histories that only load without validation of properties.
OLD = {
    "CR LF in a message": HEAD + revision(1, {b"svn:log": b"a\r\nb", b"svn:date": DATE}),
    "a bogus date": HEAD + revision(1, {b"svn:log": b"a", b"svn:date": b"yesterday"}),
    "svn:ignore in Latin-1": HEAD + revision(1) + file(b"f", properties={b"svn:ignore": b"\xe9"}),
}


def dump_source(folder, stream):
    (folder / "it.dump").write_bytes(stream)
    return sources.open_source("it", {"source": "dump", "path": str(folder / "it.dump")})


@pytest.mark.parametrize("name", OLD)
def test_load_cell_loads_dump_of_a_copy(tmp_path, name):
    old, copy, fresh = tmp_path / "old", tmp_path / "into/f8.nopack", tmp_path / "fresh"
    subprocess.run(["svnadmin", "create", old], check=True)
    argv = ["svnadmin", "load", "-q", "--bypass-prop-validation", old]
    subprocess.run(argv, input=OLD[name] + folder(b"trunk"), check=True)
    copy.parent.mkdir()
    source = sources.open_source("it", {"source": "svn", "path": str(old)})
    facts = load_source(source, "f8", copy.parent)
    assert len(facts["notes"]) == (name == "a bogus date")
    subprocess.run(["svnadmin", "verify", "-q", copy], check=True)
    dump = subprocess.check_output(["svnadmin", "dump", "-q", copy])
    subprocess.run(["svnadmin", "create", fresh], check=True)
    study = yaml.safe_load((CONFIG / "studies/fsfs-ssd-2014.yaml").read_text())
    words = {"svnadmin": ["svnadmin"], "load_options": facts["load_options"]}
    words |= {"load_args": [], "fresh": str(fresh)}
    argv = fill_template(study["commands"]["load"]["argv"], words)
    subprocess.run(argv, input=dump, check=True)


def test_choose_staging_takes_the_first_folder_with_space(tmp_path):
    with open_folder("/dev/shm") as memory:
        small, large = free_bytes(memory), free_bytes(tmp_path)
        if tmp_path.stat().st_dev == memory.stat().st_dev or large < 3 * small:
            pytest.skip("/dev/shm has as much space as the tests' folder")
        (tmp_path / "other").mkdir()
        places = memory, tmp_path, tmp_path / "other"
        scratch, first, second = (WorkDir(path, "/checkout") for path in places)

        def choose(size, repositories, others=(), cores=2):
            estimate = SizeEstimate(0, size)
            return choose_staging(estimate, scratch, repositories, None, others, cores)

        assert choose(small // 2, {first: 1}) is scratch
        assert choose(small * 6 // 5, {first: 1}) is first
        with pytest.raises(UserError, match="copies need about"):  # the two storages share a device
            choose(large // 5, {first: 3, second: 3})

        # Loads at the same time share /dev/shm, and the earlier one has precedence. On one core, there are
        # none.
        size = small * 3 // 5
        other = {"repo": "it", "format": "f7", "made": "now", "is_earlier": True, "bytes": size}
        other["storages"] = {str(tmp_path): 0}
        assert choose(size, {first: 1}, [other]) is first
        assert choose(size, {first: 1}, [other], cores=1) is scratch
        assert choose(size, {first: 1}, [{**other, "is_earlier": False}]) is scratch
        # The other load is made on its storage.
        first.make(STAGING, "it.f7")
        assert choose(size, {first: 1}, [other]) is scratch
        first.remove(STAGING, "it.f7")
        # All loads share the storage.
        size = large // 5
        other |= {"bytes": size, "storages": {str(tmp_path): 3 * size, "/no/storage": size}}
        with pytest.raises(UserError, match="copies need about"):
            choose(size, {first: 3}, [other], cores=1)


def test_other_load_that_has_ended_or_has_written_takes_less_space(tmp_path):
    other = {"repo": "it", "format": "f7", "made": "now", "is_earlier": True, "bytes": 3 << 20}
    other["storages"] = {}
    record = tmp_path / "results/loaded/it/f7.json"
    record.parent.mkdir(parents=True)
    for made, others in (("before", [other]), ("now", [])):
        record.write_text(json.dumps({"made": made}))
        assert loader.unfinished_loads([other], tmp_path) == others
    place = WorkDir(tmp_path, tmp_path)
    (place.make(STAGING, "it.f7") / "written").write_bytes(os.urandom(1 << 20))
    os.sync()
    at_once = loader._bytes_at_the_same_time([other], place, None)
    assert at_once == pytest.approx(2 << 20, rel=0.1)


def test_choose_staging_reserves_the_space_of_spacers(tmp_path, capsys):
    scratch, storage = (WorkDir(tmp_path / name, "/checkout") for name in ("scratch", "storage"))
    for place in (scratch, storage):
        place.storage.mkdir()
    size = SizeEstimate(10, 1000)
    assert choose_staging(size, scratch, {storage: 3}, {storage: 2048}) is scratch
    assert ", spacers of 2.00 KiB; " in capsys.readouterr().err
    # More than any disk has.
    with pytest.raises(UserError, match=r"copies need about [0-9.]+ TiB"):
        choose_staging(size, scratch, {storage: 3}, {storage: 1 << 60})


def test_choose_staging_counts_repositories_without_those_that_they_replace(tmp_path, capsys):
    scratch, storage = (WorkDir(tmp_path / name, "/checkout") for name in ("scratch", "storage"))
    for place in (scratch, storage):
        place.storage.mkdir()
    # Two of them fit, and three do not.
    size = SizeEstimate(0, free_bytes(tmp_path) * 2 // 5)
    with pytest.raises(UserError, match="copies need about"):
        choose_staging(size, scratch, {storage: 3})
    replaced = {storage: 2 * size.repository_bytes}
    assert choose_staging(size, scratch, {storage: 3}, replaced_bytes=replaced) is scratch
    assert ", in place of " in capsys.readouterr().err


@pytest.mark.parametrize("moment", ["never", "before", "during"])
def test_load_of_a_changed_source_is_refused(tmp_path, monkeypatch, capsys, moment):
    monkeypatch.setattr("vcsbench.run.job.exit_on_signals", lambda: None)
    path = tmp_path / "it.dump"
    definition = {"source": "dump", "path": str(path)}
    identity = dump_source(tmp_path, BASE).identity()
    if moment == "before":
        os.utime(path, (1, 1))
    elif moment == "during":
        write = DumpSource.write
        changed = lambda self, out: (write(self, out), os.utime(path, (1, 1)))[0]  # noqa: E731
        monkeypatch.setattr(DumpSource, "write", changed)
    request = {"home": str(tmp_path), "repositories": {str(tmp_path): 2}}
    params = {"request": request, "definition": definition, "identity": identity}
    params |= {"rebuild_token": "now", "scratch": str(tmp_path), "root": str(tmp_path)}
    params |= {"others": []}
    job = SimpleNamespace(params=SimpleNamespace(**params), output=[f"{tmp_path}/record"])
    job.wildcards = SimpleNamespace(repo="it", format="f8")
    job.log = [f"{tmp_path}/log"]
    script = ROOT / "workflow/scripts/load_repository.py"
    with pytest.raises(SystemExit) if moment != "never" else nullcontext():
        runpy.run_path(str(script), {"snakemake": job})
    refused = f"{path} changed since this run began. Run again." in capsys.readouterr().err
    assert (refused, Path(job.output[0]).exists()) == (moment != "never", moment == "never")
    assert bool(list(tmp_path.glob("vcsbench-*/loaded/it/f8/f8.nopack"))) == (moment == "never")
    assert not list(tmp_path.glob("vcsbench-*/loading/*"))


def test_load_source_has_the_start_and_the_seconds_of_the_load(tmp_path):
    before = time.time()
    facts = load_source(dump_source(tmp_path, BASE), "f8", tmp_path)
    # They are rounded.
    assert before - 0.01 < facts["began"] < facts["began"] + facts["seconds"] < time.time() + 0.01


def test_load_killed_by_the_kernel_names_signal_and_place(tmp_path, monkeypatch):
    kill = f'[ "$1" != load ] || kill -{signal.SIGKILL} $$'
    write_program(tmp_path / "bin/svnadmin", f'#!/bin/sh\n{kill}\nexec /usr/bin/svnadmin "$@"\n')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "into").mkdir()
    with pytest.raises(UserError, match=r"revision 1 of .*, at byte \d+.*SIGKILL.*memory"):
        load_source(dump_source(tmp_path, BASE), "f8", tmp_path / "into")


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (2 * (BASE + file(b"trunk/f") + revision(2)), r"E160020.*'/trunk'\. .* one dump twice"),
        (BASE + file(b"trunk/none/f"), r"E160013.*none/f'\. It lacks .* from revision 0,"),
    ],
)
def test_load_of_a_dump_that_does_not_fit_names_the_remedy(tmp_path, stream, why):
    with pytest.raises(UserError, match=f"(?s)svnadmin load failed .*{why}"):
        load_source(dump_source(tmp_path, stream), "f8", tmp_path)


def test_make_dump_has_first_revisions_and_detects_changes(tmp_path):
    source = sources.open_source("ruby", {"source": "generated", "profile": "ruby", "scale": 0.001})
    facts = load_source(source, "f7", tmp_path)
    (tmp_path / "scratch").mkdir()
    place = WorkDir(tmp_path / "scratch", tmp_path)
    made = make_dump(tmp_path / "f7.nopack", 12, place, "ruby")
    youngest = {"youngest": facts["revisions"]}
    path, record = Path(made["path"]), {**made, **youngest}
    assert path.read_bytes().count(b"Revision-number: ") == 13
    assert made["last"] == 12 and made["bytes"] == path.stat().st_size
    assert has_dump(record, 12) and not has_dump(record, 13)
    every = make_dump(tmp_path / "f7.nopack", 10**6, place, "ruby")
    assert every["last"] == facts["revisions"]
    assert has_dump({**every, **youngest}, 10**6)
    assert not has_dump(record, 12)  # replaced by another file
    with pytest.raises(UserError, match="cannot be dumped"):
        make_dump(place.path, 12, place, "other")
    assert not (path.parent / "other.dump").exists()


def test_summarize_tree_names_the_folder_with_most_entries(tmp_path, monkeypatch):
    path = tmp_path / "repository"
    subprocess.run(["svnadmin", "create", path], check=True)
    names = ("trunk", "trunk/a", "trunk/a/x", "odd")
    names += ("trunk/größer", "trunk/größer/x", "trunk/größer/y")
    argv = ["svn", "mkdir", "-q", "-m", "", *(f"file://{path}/{name}" for name in names)]
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    subprocess.run(argv, check=True, env=environment)
    monkeypatch.setenv("LC_ALL", "C")
    folders = {tree: summarize_tree(path, tree)[0] for tree in ("trunk", "", "odd")}
    assert folders == {"trunk": "trunk/größer", "": "trunk", "odd": "odd"}
