"""The script that runs tests of git's own t/perf."""

import sys

import pytest

from git_histories import git, make_work
from project import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import git_perf

SCRIPT = """\
#!/bin/sh
test_description='as in t/perf'
. ./perf-lib.sh
test_perf_default_repo
test_expect_success PERL 'set up' '
	commit=$(git rev-parse HEAD) &&
	test_export commit
'
test_perf 'rev-list   --all' '
	git rev-list --all >/dev/null &&
	test -n "$commit" &&
	echo out && echo err >&2 && sleep 0.05
'
test_perf 'with set-up' --setup 'touch ready' '
	rm ready
'
test_size 'size' 'echo 1'
test_done
"""


@pytest.fixture
def source(tmp_path):
    """A source of git with one script, and the libraries that scripts read."""
    perf = tmp_path / "source" / "t" / "perf"
    perf.mkdir(parents=True)
    (perf / "p0001-rev-list.sh").write_text(SCRIPT)
    for name in git_perf.LIBRARIES:
        (perf.parent / name).write_text("")
    return tmp_path / "source"


@pytest.fixture
def repository(tmp_path):
    make_work(tmp_path / "work")
    git(tmp_path / "work", "clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    return tmp_path / "bare"


def test_run_script_returns_the_fastest_of_three_runs(source, repository, tmp_path):
    before = git(repository, "for-each-ref") + git(repository, "count-objects", "-v")
    times = git_perf.run_script(source, "p0001-rev-list.sh", repository, tmp_path)
    assert [time.title for time in times] == ["rev-list --all", "with set-up"]
    assert times[0].elapsed_s >= 0.05 and times[0].cpu_s < times[0].elapsed_s
    log = (tmp_path / "results.log").read_text()
    assert log.count("out\n") == log.count("err\n") == 3
    assert before == git(repository, "for-each-ref") + git(repository, "count-objects", "-v")


def test_run_script_goes_on_after_a_test_that_fails(source, repository, tmp_path, capfd):
    script = source / "t/perf/p0001-rev-list.sh"
    script.write_text(SCRIPT.replace("git rev-list --all", "git rev-list --no-such-option"))
    times = git_perf.run_script(source, script.name, repository, tmp_path)
    assert [time.title for time in times] == ["with set-up"]
    assert capfd.readouterr().err == "failed with the installed git: rev-list   --all\n"


def test_run_script_without_its_set_up_raises_with_the_title(source, repository, tmp_path):
    script = source / "t/perf/p0001-rev-list.sh"
    script.write_text(SCRIPT.replace("test_export commit", "false"))
    with pytest.raises(git_perf.ScriptError, match="setup failed: PERL"):
        git_perf.run_script(source, script.name, repository, tmp_path)


@pytest.mark.parametrize("has_release", [True, False])
def test_read_test_file_takes_the_release_of_the_installed_git(source, has_release):
    git(source, "init", "-q")
    for text in (SCRIPT, "newer"):
        (source / "t/perf/p0001-rev-list.sh").write_text(text)
        git(source, "add", ".")
        git(source, "commit", "-q", "-m", text)
        if has_release and text == SCRIPT:
            git(source, "tag", f"v{git(source, 'version').split()[2].decode()}")
    read = git_perf.read_test_file(source / ".git", "perf/p0001-rev-list.sh")
    assert read == (SCRIPT.encode() if has_release else b"newer")
    with pytest.raises(SystemExit, match=r"t/perf/p1\.sh"):
        git_perf.read_test_file(source / ".git", "perf/p1.sh")


def test_main_goes_on_after_a_script_without_its_set_up(source, repository, capsys):
    failing = SCRIPT.replace("test_export commit", "false")
    (source / "t/perf/p0002-failing.sh").write_text(failing)
    names = ["p0002-failing.sh", "p0001-rev-list.sh"]
    with pytest.raises(SystemExit, match=r"set-up of 1 script\(s\) failed"):
        git_perf.main([str(repository), str(source), "/no/such", *names])
    assert "| p0001: rev-list --all |" in capsys.readouterr().out


def test_read_cells_takes_the_repository_of_the_copy(tmp_path):
    (tmp_path / "measurements").mkdir()
    file = tmp_path / "measurements" / "git-server.csv"
    file.write_text("repo,elapsed_s\nproject,1\ncommits,2\n")
    copy = tmp_path / "project.git.one-pack.1"
    assert git_perf.read_cells(tmp_path, copy) == [{"repo": "project", "elapsed_s": "1"}]
    assert git_perf.read_cells(tmp_path / "nothing", copy) == []


def test_median_of_cells_takes_warm_runs_of_the_pairing():
    row = {"command": "clone", "upkeep": "bitmap", "cache": "hot-os", "access": "git"}
    row |= {"refs": "as-is", "ref_storage": "packed", "protocol": "2", "network": "loopback"}
    rows = [
        {**row, "server_cpu_s": "0.2"},
        # An axis that does not apply is empty.
        {**row, "server_cpu_s": "0.4", "protocol": ""},
        {**row, "server_cpu_s": ""},
        {**row, "server_cpu_s": "9", "cache": "cold"},
        {**row, "server_cpu_s": "9", "upkeep": "one-pack"},
        {**row, "server_cpu_s": "9", "ref_storage": "loose"},
        {**row, "server_cpu_s": "9", "protocol": "0"},
        {**row, "server_cpu_s": "9", "refs": "20000"},
    ]
    cell = {"command": "clone", "upkeep": "bitmap"}
    pairing = git_perf.Pairing("p5310", "simulated clone", cell, "server_cpu_s")
    assert git_perf.median_of(rows, pairing) == pytest.approx(0.3)
    assert git_perf.median_of([], pairing) is None
