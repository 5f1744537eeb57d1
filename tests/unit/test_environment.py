"""All programs have one fixed environment, whatever the caller's has."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from project import HANGING_S, needs, wait_for, write_program
from vcsbench import environment, process_facts, processes
from vcsbench.errors import ProgramError, full_errno
from vcsbench.machine import subversion_version
from vcsbench.measure.runs import Invocation
from vcsbench.measure.untimed_runs import capture
from vcsbench.measure.work import read_printed_counts, read_verified
from vcsbench.programs import Programs
from vcsbench.systems import fsfs

# With one of these, programs speak German, do other work, or take another time.
CHANGING = {
    "LANGUAGE": "de",
    "LC_MESSAGES": "de_DE.UTF-8",
    "LD_PRELOAD": "/nonexistent.so",
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.arena_max=1",
    "SVN_SSH": "ssh -C",
    "SVN_EDITOR": "vi",
    "APR_DEFAULT_LOCALE": "de",
    "SERF_LOG": "x",
    "http_proxy": "http://user:secret@proxy.invalid:3128",
    "ALL_PROXY": "socks5://proxy.invalid",
    "GIT_DIR": "/nonexistent",
    "GIT_TRACE": "1",
    "PYTHONPATH": "/nonexistent",
    "TZ": "Asia/Tokyo",
}
GERMAN = Path("/usr/share/locale/de/LC_MESSAGES/subversion.mo")
needs_german = pytest.mark.skipif(not GERMAN.exists(), reason="Subversion has no German messages")


@pytest.fixture
def changed(monkeypatch):
    for name, value in CHANGING.items():
        monkeypatch.setenv(name, value)


def variables_of(output):
    return dict(line.split("=", 1) for line in output.splitlines())


@pytest.mark.usefixtures("changed")
def test_program_gets_fixed_and_passed_variables_only(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    variables = variables_of(processes.run_program(["env"]).output)
    assert variables == environment.program_environment()
    assert not CHANGING.keys() & variables.keys()
    assert variables["LC_ALL"] == "C.UTF-8"
    assert variables["LD_LIBRARY_PATH"] == "/opt/lib"
    assert variables.keys() <= {*environment.PASSED, *environment.FIXED}
    with processes.Program(["env"], "env") as program:
        assert variables_of(program.read_all().decode()) == variables


@pytest.mark.usefixtures("changed")
def test_build_with_prefix_replaces_library_path_only(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    fixed = environment.program_environment()
    without = {name: value for name, value in fixed.items() if name != "LD_LIBRARY_PATH"}
    assert Programs().environment() == fixed
    assert Programs("/opt/svn").environment() == without
    assert Programs("/opt/svn", "/a:/b").environment() == {**without, "LD_LIBRARY_PATH": "/a:/b"}


def test_environment_without_path_has_the_default_one(monkeypatch):
    monkeypatch.delenv("PATH")
    assert environment.program_environment()["PATH"] == os.defpath
    assert environment.server_environment()["PATH"] == os.defpath


@needs_german
@pytest.mark.usefixtures("changed")
def test_work_of_commands_is_recorded_on_a_german_desktop(tmp_path):
    repository = tmp_path / "repository"
    fsfs.create(repository, "f7")
    for name in ("a", "b", "c"):
        fsfs.run_client(Programs(), "mkdir", "-q", "-m", "x", f"file://{repository}/{name}")

    def work(read, *argv):
        command = Invocation(argv, "", Programs().environment(), 60)
        return capture(command, lambda output: read(output, None), tmp_path / "log").work

    # The same programs print German messages with the caller's variables.
    german = {**environment.program_environment(), "LANGUAGE": "de"}
    argv = ["svnadmin", "verify", str(repository)]
    assert b"Revision" in subprocess.run(argv, capture_output=True, env=german).stdout
    assert work(read_verified, *argv)["revisions"] == 4
    assert work(read_printed_counts, "svnbench", "null-log", "-v", f"file://{repository}")


@pytest.mark.usefixtures("changed")
def test_full_disk_is_detected_on_a_german_desktop():
    with pytest.raises(ProgramError) as error:
        processes.run_program(["cp", "/etc/passwd", "/dev/full"])
    assert full_errno(str(error.value))


@needs("git")
def test_attributes_and_ignored_names_of_the_user_have_no_effect_on_git(tmp_path, monkeypatch):
    settings = tmp_path / ".config" / "git"
    settings.mkdir(parents=True)
    (settings / "attributes").write_text("* text eol=crlf\n")
    (settings / "ignore").write_text("*\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    work, clone = tmp_path / "work", tmp_path / "clone"
    git = ["git", "-C", work, "-c", "user.name=x", "-c", "user.email=x@y"]
    processes.run_program(["git", "init", "-q", work])
    (work / "file").write_bytes(b"a\nb\n")
    # git refuses to add an ignored file.
    processes.run_program([*git, "add", "file"])
    processes.run_program([*git, "commit", "-q", "-m", "x"])
    processes.run_program(["git", "clone", "-q", work, clone])
    assert (clone / "file").read_bytes() == b"a\nb\n"


def test_run_that_may_fail_returns_how_it_ended():
    done = processes.run_program(["sh", "-c", "echo out; echo err >&2; exit 3"], may_fail=True)
    assert done == (3, "out\n", "err\n")
    assert processes.run_program(["sh", "-c", "kill -9 $$"], may_fail=True).code == -9
    assert processes.run_program(["/nonexistent"], may_fail=True).code == processes.CANNOT_RUN
    with pytest.raises(FileNotFoundError):
        processes.run_program(["/nonexistent"])


@pytest.mark.parametrize("may_fail", [False, True])
def test_run_over_its_limit_ends_its_children(tmp_path, may_fail):
    # A wrapper whose program holds the output open.
    text = "#!/bin/sh\nsleep 3600 &\necho $! > pid\nwait\n"
    wrapper = write_program(tmp_path / "wrapper", text)
    began = time.monotonic()
    if may_fail:
        done = processes.run_program([wrapper], cwd=tmp_path, limit_s=0.5, may_fail=True)
        assert done.code == processes.TOO_LONG
    else:
        with pytest.raises(ProgramError):
            processes.run_program([wrapper], cwd=tmp_path, limit_s=0.5)
    assert time.monotonic() - began < HANGING_S
    sleep = int((tmp_path / "pid").read_text())
    # The kernel ends it a moment after its group got the signal.
    wait_for(lambda: "sleep" not in process_facts.command_line(sleep))


def test_version_of_wrapper_that_never_ends_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr("vcsbench.machine.VERSION_S", 0.5)
    wrapper = write_program(tmp_path / "svn", "#!/bin/sh\nsleep 3600\n")
    assert subversion_version(str(wrapper)) == ""
