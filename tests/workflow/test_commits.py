"""Commits to private copies: put back before each run, equal over each access, never to the user's files."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from project import (
    DEFAULT,
    ROOT,
    invalid_flags,
    make_project,
    needs,
    ruby,
    run_merged,
    servers_of,
    slow,
    wait_for,
)
from shards import set_shard_size
from unit.study_grid import merge
from vcsbench.axes.build_axis import why_no_sshd
from vcsbench.config.validation import read_yaml
from vcsbench.prepare.copies import read_content
from vcsbench.programs import Programs
from vcsbench.run import project as run_project
from vcsbench.systems import fsfs

pytestmark = needs("svn", "svnadmin", "svnbench", "svnserve", "hyperfine")

ACCESSES = ["file", "svn", *(["http"] if Programs().httpd else [])]
CHANGES = ("one-file", "thousand-files", "large-binary")


def commit_of(change):
    return {
        "argv": "{svn} commit -q -m commit {working_copy}",
        "input": "committed_repository",
        "output": "changed_working_copy",
        "change": change,
        "work": "commit",
        "fixed_cost": False,
    }


STUDY = {
    "title": "Commits",
    "source": "A test",
    "axes": {
        "command": list(CHANGES),
        "access": ["file", "svn", "http", "https", "svn+ssh"],
        "repo": "repositories",
        "format": ["f6", "f7", "f8", "as-is"],
        "packing": ["nopack", "pack"],
        "cache": ["cold", "hot-os", "hot-server"],
        "hooks": ["none", "shell", "python"],
    },
    "defaults": {"config": "threaded"},
    "commands": {change: commit_of(change) for change in CHANGES},
    "tables": {
        "elapsed": {"metric": "elapsed_s", "rows": ["command"], "columns": ["access"]},
        "dirtied": {"metric": "dirtied_mib", "rows": ["command"], "columns": ["access"]},
        "flush-calls": {"metric": "flush_calls", "rows": ["command"], "columns": ["access"]},
    },
    "trace_syscalls": {"command": ["one-file"]},
}
# The values of a cell, unless a test sets others.
CELL = {"format": "f8", "packing": "nopack", "cache": "hot-os", "access": "file", "hooks": "none"}
CELL_CODE = """
import json, sys
from vcsbench.modules import cell_code
print(cell_code(json.load(sys.stdin)))
"""


class Commits:
    """A project with the study `commits`. measure() runs a round of a cell as the rule `cell` does."""

    def __init__(self, project):
        self.project = project
        file = project.path / "config" / "studies" / "commits.yaml"
        file.write_text(yaml.safe_dump(STUDY, sort_keys=False))
        # The checkout of the tests may have an unpacked sshd.
        if (ROOT / ".tools").exists():
            (project.path / ".tools").symlink_to((ROOT / ".tools").resolve())

    def configure(self, command="one-file", runs="auto", **axes):
        part = {**CELL, "command": command, **axes}
        self.project.configure(part, study="commits", repositories=ruby(0.01), runs=runs)

    def recipe(self, command="one-file", **axes):
        cell = "{access}/ruby/{format}/{packing}/{cache}/{hooks}".format(**{**CELL, **axes})
        keys = yaml.safe_load(self.project.config.read_text())
        planned = run_project.Project(merge(read_yaml(DEFAULT), keys), self.project.path, [DEFAULT])
        return json.loads(planned.plan.recipe_json("commits", f"{command}/{cell}"))

    def prepare_cell(self, command="one-file", runs="auto", **axes):
        """Prepare the repository of a cell, and return the cell's recipe."""
        self.configure(command, runs, **axes)
        self.project.prepare()
        return self.recipe(command, **axes)

    def command(self, recipe):
        folder = self.project.path / "measured"
        folder.mkdir(exist_ok=True)
        self.export, self.context_file = folder / "round1.json", folder / "round1.context.json"
        # A test may have changed the code of the project.
        digest = subprocess.run(
            [sys.executable, "-c", CELL_CODE],
            env={**os.environ, "PYTHONPATH": self.modules},
            input=json.dumps(recipe),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        recipe = {**recipe, "code": digest}
        module = [sys.executable, "-m", "vcsbench.run.cell_job", str(self.project.path)]
        files = [str(self.export), str(self.context_file)]
        return [*module, json.dumps(recipe), "1", "0", "0", *files]

    def measure(self, recipe, code=0):
        """Measure a round. Return its context, or the errors if it has to fail."""
        done = run_merged(self.command(recipe), self.project.path, 300, PYTHONPATH=self.modules)
        assert done.returncode == code, done.stdout
        return done.stdout if code else json.loads(self.context_file.read_text())

    @property
    def modules(self):
        return str(self.project.path / "workflow")

    def edited_hooks(self, old, new):
        """Replace a part of the project's code that installs hooks."""
        return self.edited("deployment/hooks.py", old, new)

    @contextlib.contextmanager
    def edited(self, module, old, new):
        """Replace a part of the project's code."""
        file = Path(self.modules) / "vcsbench" / module
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        try:
            yield
        finally:
            file.write_text(text)

    def copies(self):
        """Return the digests of the prepared copies, by name."""
        folders = self.project.path.glob("storage/vcsbench-*/repositories/*")
        return {path.name: read_content(path).digest for path in folders if path.is_dir()}

    def private_copies(self):
        return list(self.project.path.glob("storage/vcsbench-*/targets/*"))


@pytest.fixture(scope="module")
def commits():
    yield from map(Commits, make_project())


@pytest.mark.slow
def test_commits_over_each_access_do_the_same_work_and_leave_no_copy(commits):
    commits.configure([*CHANGES], access=ACCESSES)
    commits.project.prepare()
    before = commits.copies()
    commits.project.succeed()
    assert commits.copies() == before and commits.private_copies() == []
    runs = commits.project.rows("measurements/commits.csv")
    assert {row["access"] for row in runs} == set(ACCESSES)
    assert invalid_flags(runs) == []
    # One work for each command: equal over each access, and in each run.
    pairs = {(row["command"], row["work"]) for row in runs}
    works = {command: json.loads(work) for command, work in pairs}
    assert len(pairs) == len(works) == len(CHANGES)
    youngest = fsfs.youngest(next(commits.project.path.glob("storage/*/repositories/ruby*.1/")))
    assert {work["youngest"] for work in works.values()} == {youngest + 1}
    # 1,000 files at the scale 0.01.
    paths = {command: work["paths"] for command, work in works.items()}
    assert paths == {"one-file": 1, "thousand-files": 10, "large-binary": 1}
    assert works["large-binary"]["bytes"] > 50_000_000
    for row in runs:
        # The working copy and the repository have the 50 MB, too.
        is_large = row["command"] == "large-binary"
        assert (float(row["call_written_bytes"]) > 50e6) == is_large, row["cell"]
        assert (float(row["dirtied_bytes"]) > 50e6) == is_large, row["cell"]
        if row["command"] == "one-file":
            # The traced run of the command flushes several files.
            assert int(row["flush_calls"]) >= 4, row["cell"]
    assert "fixed" not in {row["cell"].split("/")[2] for row in runs}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("access", "cache"), [("svn", "hot-server"), *(slow(access, "cold") for access in ACCESSES)]
)
def test_commit_in_a_cache_state_has_its_promises(commits, access, cache):
    recipe = commits.prepare_cell("thousand-files", format="f7", access=access, cache=cache)
    runs = commits.measure(recipe)["runs"]
    for run in runs:
        assert not {*run["flags"]} & {"server-not-warm", "restarted", "cache-not-cold"}
        assert run["evidence"]["input_grew_bytes"] > 0
    assert len({json.dumps(run["work"]) for run in runs}) == 1
    if cache == "hot-server":
        # Each run has a server of its own, which has answered one read before.
        assert [run["evidence"]["server_runs_before"] for run in runs] == [1] * 4
        assert len({run["evidence"]["server_pid"] for run in runs}) == 4


VERIFY = """fsfs.run_svnadmin("verify", "-q", self.path)
        with open({file!r}, "a") as file:
            print(fsfs.youngest(self.path), file=file)
        {checked}"""
COMMITTED = [(access, change) for access in reversed(ACCESSES) for change in CHANGES]


@pytest.mark.parametrize(
    ("access", "change"), [COMMITTED[0], *(slow(*case) for case in COMMITTED[1:])]
)
def test_private_copy_with_a_commit_is_verified_by_svnadmin(commits, tmp_path, access, change):
    recipe = commits.prepare_cell(change, runs=2, access=access)
    prepared = next(commits.project.path.glob("storage/*/repositories/ruby.f8.nopack.1"))
    checked = "missing = hooks.find_missing_marks"
    file = tmp_path / "verified"
    verified = VERIFY.format(file=str(file), checked=checked)
    # After a run, the private copy has its commit. It is put back before the next one.
    with commits.edited("subjects/committed_repository.py", checked, verified):
        runs = commits.measure(recipe)["runs"]
    revisions = file.read_text().split()
    assert len(revisions) >= len(runs) == 2
    assert set(revisions) == {str(fsfs.youngest(prepared) + 1)}


DEPLOYED = {
    "https": {"authentication": "basic-bcrypt", "access_rules": {"count": 10}},
    "svn": {"authentication": "password", "access_rules": {"count": 10}},
    "svn+ssh": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("access", DEPLOYED)
def test_commit_to_a_server_as_it_is_deployed_does_the_same_work(commits, access):
    if access == "svn+ssh" and why_no_sshd():
        pytest.skip(why_no_sshd())
    commits.configure(access=[access, "file"], hooks="shell")
    commits.project.prepare()
    deployed = commits.recipe(access=access, hooks="shell") | DEPLOYED[access]
    local = commits.recipe(access="file", hooks="shell")
    runs = [run for recipe in (deployed, local) for run in commits.measure(recipe)["runs"]]
    assert invalid_flags([{"flags": " ".join(run["flags"])} for run in runs]) == []
    assert all(run["work"] == runs[0]["work"] for run in runs)


HOOKS = [(access, hooks) for access in ACCESSES for hooks in ("shell", "python")]


@pytest.mark.parametrize(("access", "hooks"), [HOOKS[0], *(slow(*case) for case in HOOKS[1:])])
def test_commit_with_hooks_runs_both_and_without_a_mark_fails(commits, access, hooks):
    recipe = commits.prepare_cell(cache="hot-server", access=access, hooks=hooks)
    runs = commits.measure(recipe)["runs"]
    assert invalid_flags([{"flags": " ".join(run["flags"])} for run in runs]) == []
    # No hook has the name by which Subversion runs it.
    with commits.edited_hooks("hook = folder / moment", 'hook = folder / f"{moment}.x"'):
        assert "hook pre-commit has not run" in commits.measure(recipe, code=1)


@pytest.mark.slow
@pytest.mark.parametrize("access", ACCESSES)
def test_commit_waits_for_the_end_of_its_post_commit_hook(commits, access):
    recipe = commits.prepare_cell(runs=1, access=access, hooks="shell")
    with commits.edited_hooks('"$1/{moment}.ran"', '"$1/{moment}.ran"; sleep 1.2'):
        commits.measure(recipe)
    (result,) = json.loads(commits.export.read_text())["results"]
    times = result.get("times") or [m["time_wall_clock"]["value"] for m in result["measurements"]]
    # Both hooks. The page says that a hook is part of the measured time.
    assert 2.4 < times[0] < 60


@pytest.fixture
def repository(tmp_path):
    """A repository of the user's with a lock, and with hooks that must never run."""
    path = tmp_path / "mine"
    fsfs.create(path, "f8")
    set_shard_size(path, 4)
    url = path.as_uri()
    work = tmp_path / "work"
    subprocess.run(["svn", "mkdir", "-q", "-m", "", f"{url}/trunk"], check=True)
    subprocess.run(["svn", "checkout", "-q", f"{url}/trunk", work], check=True)
    for number in range(8):
        (work / f"file{number}").write_text(f"{number}\n")
        subprocess.run(["svn", "add", "-q", work / f"file{number}"], check=True)
        subprocess.run(["svn", "commit", "-q", "-m", "", work], check=True)
    subprocess.run(["svn", "lock", "-q", *(f"{url}/trunk/file{n}" for n in range(8))], check=True)
    for moment in ("start-commit", "pre-commit", "post-commit"):
        hook = path / "hooks" / moment
        hook.write_text(f"#!/bin/sh\necho {moment} >>{tmp_path}/canary\nexit 1\n")
        hook.chmod(0o755)
    return path


@pytest.mark.parametrize("packing", ["nopack", slow("pack")])
def test_repository_of_the_user_is_neither_written_nor_are_its_hooks_run(
    project, repository, packing
):
    Commits(project)
    if packing == "pack":
        fsfs.run_svnadmin("pack", repository)
    before = read_content(repository)
    # A copy by `svnadmin hotcopy`.
    part = {**CELL, "command": "one-file", "access": ACCESSES}
    part |= {"format": "as-is", "packing": packing}
    project.configure(part, study="commits", repository=str(repository), runs=2)
    project.succeed("measured")
    assert project.rows("failures/commits.csv") == []
    assert {row["skip"] for row in project.rows("grid/commits.csv")} == {""}
    assert len(project.rows("measurements/commits.csv")) == 2 * len(ACCESSES)
    assert read_content(repository) == before
    assert not (repository.parent / "canary").exists()


def test_command_that_commits_nothing_fails_its_cell(commits):
    nothing = commits.prepare_cell(runs=1) | {"argv": "{svn} info {working_copy}"}
    assert "committed nothing" in commits.measure(nothing, code=1)
    assert commits.private_copies() == []


@pytest.mark.parametrize("kills", [3, slow(20)])
def test_kills_during_commits_leave_the_prepared_copy_as_it_was(commits, kills):
    cell = {"command": "thousand-files", "format": "f7", "access": ACCESSES[-1]}
    recipe = commits.prepare_cell(**cell, runs=20)
    before = commits.copies()
    prepared = next(commits.project.path.glob("storage/*/repositories/ruby.f7.nopack.1"))
    for kill in range(kills):
        with subprocess.Popen(
            commits.command(recipe),
            cwd=commits.project.path,
            env={**os.environ, "PYTHONPATH": commits.modules},
            start_new_session=True,
        ) as process:
            while process.poll() is None and not is_committing(commits, prepared, kill):
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        wait_for(lambda: servers_of(commits.project) == [])
        assert commits.copies() == before
    commits.configure(**cell, runs=2)
    context = commits.measure(commits.recipe(**cell))
    assert len(context["runs"]) == 2 and commits.copies() == before
    subprocess.run(["svnadmin", "verify", "-q", prepared], check=True)


def is_committing(commits, prepared, kill):
    """Return True in a commit: a transaction is open, or for odd kills, its revision is there."""
    youngest = (prepared / "db" / "current").read_text()
    for copy in commits.project.path.glob("storage/vcsbench-*/targets/*/served/*"):
        # The copy may not be complete yet, or be removed.
        with contextlib.suppress(OSError):
            if kill % 2 == 0 and any((copy / "db" / "transactions").iterdir()):
                return True
            if kill % 2 and (copy / "db" / "current").read_text() != youngest:
                return True
    return False
