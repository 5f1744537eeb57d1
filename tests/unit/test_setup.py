"""envs/setup.sh, branch by branch, on machines of stand-in programs."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from fake_machine import UV, Machine

# Stand-ins for conda and pixi: environments with all programs except httpd.
CONDA = """
echo "priority $CONDA_CHANNEL_PRIORITY $MAMBA_CHANNEL_PRIORITY" >>"$RECORD"
mkdir -p .conda/bin
cp "$PRIVATE"/{python3,svn,svnadmin,svnserve,svnlook,svnbench,hyperfine} .conda/bin
mv .conda/bin/python3 .conda/bin/python
"""
PIXI = """
if [[ $1 == install ]]; then
    mkdir -p .tools/pixi/.pixi/envs/default/bin
    cp "$PRIVATE"/{python3,svn,svnadmin,svnserve,svnlook,svnbench,hyperfine} \\
        .tools/pixi/.pixi/envs/default/bin
    mv .tools/pixi/.pixi/envs/default/bin/python3 .tools/pixi/.pixi/envs/default/bin/python
elif [[ $1 == init ]]; then
    grep -q nodefaults "$3" && echo "pixi was given nodefaults" >>"$RECORD"
    true
fi
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_setup_on_complete_machine_makes_python_environment_only(machine: Machine) -> None:
    machine.has("apt-get")
    machine.has("sudo")

    machine.set_up_well(PYTHONDONTWRITEBYTECODE="1")

    venv, sync, bytecode = machine.calls()
    assert re.fullmatch(r"uv venv .*--python >=3\.11,<3\.\d+ \.venv", venv)
    assert sync.startswith("uv pip sync") and sync.endswith("envs/python.lock")
    assert "--require-hashes" in sync and "--compile-bytecode" in sync
    assert bytecode == "PYTHONDONTWRITEBYTECODE=unset"


def test_setup_again_calls_nothing_within_a_second(machine: Machine) -> None:
    machine.set_up_well()
    machine.calls()

    started = time.monotonic()
    output = machine.set_up_well()

    assert time.monotonic() - started < 1
    assert output == "" and machine.fakes.calls() == []


def test_setup_with_changed_lock_file_updates_environment(machine: Machine) -> None:
    machine.set_up_well()
    machine.calls()
    with (machine.checkout / "envs/python.lock").open("a") as lock:
        lock.write("# changed\n")

    machine.set_up_well()

    assert [call.split()[1] for call in machine.calls() if call.startswith("uv")] == ["pip"]


def test_setup_in_moved_checkout_makes_new_environment(machine: Machine) -> None:
    machine.set_up_well()
    machine.calls()
    machine.checkout = machine.checkout.rename(machine.checkout.with_name("moved"))

    machine.set_up_well()

    assert [call.split()[1] for call in machine.calls() if call.startswith("uv")] == ["venv", "pip"]


def test_setup_as_root_installs_missing_packages_only(machine: Machine) -> None:
    machine.has("apt-get")
    machine.has("sudo")
    machine.lacks_subversion()
    machine.fakes.remove("strace")

    output = machine.set_up_well()

    assert machine.calls()[0] == "install subversion strace"
    assert "strace is missing" in output


def test_list_missing_prints_packages_and_installs_nothing(machine: Machine) -> None:
    machine.lacks_subversion()
    machine.fakes.remove("strace")
    lists = machine.checkout / "envs/list-missing.sh"

    output = machine.fakes.run(lists).stdout
    assert "subversion strace" in output and ".venv" in output
    rows = [line.split("\t") for line in machine.fakes.run(lists, "--table").stdout.splitlines()]
    assert [row[:2] for row in rows] == [["must", "subversion"], ["may", "strace"]]
    assert machine.calls() == []


def test_setup_for_tests_installs_more_packages(machine: Machine) -> None:
    machine.has("apt-get")

    machine.set_up_well("--test")
    assert machine.calls()[0] == "install chromium shellcheck"

    machine.set_up_well()
    machine.calls()
    machine.set_up_well("--test")
    machine.set_up_well()
    assert machine.calls() == []


@pytest.mark.parametrize(
    ("options", "packages"),
    [
        (("--test", "--cluster"), "chromium shellcheck slurm-wlm munge"),
        (("--cluster",), ""),
    ],
)
def test_setup_installs_slurm_for_tests_of_a_cluster_only(
    machine: Machine, options: tuple[str, ...], packages: str
) -> None:
    machine.has("apt-get")
    # Stand-ins cannot hide a Slurm of this machine.
    packages_file = machine.checkout / "envs/debian-packages-test-cluster.txt"
    text = packages_file.read_text()
    packages_file.write_text(text.replace("munged ", "nowhere ").replace("slurmctld,", "nowhere,"))

    machine.set_up_well(*options)

    installed = [call for call in machine.calls() if call.startswith("install ")]
    assert installed == ([f"install {packages}"] if packages else [])


def test_setup_as_user_installs_by_sudo(machine: Machine) -> None:
    machine.user(1000)
    machine.has("apt-get")
    machine.has("sudo", '[[ $2 == true ]] && exit\nshift\n"$@"')
    machine.lacks_subversion()

    machine.set_up_well()

    probe, by_sudo, installed = machine.calls()[:3]
    assert probe == "sudo -n true"
    assert by_sudo.endswith("envs/setup/install-debian-packages.sh subversion")
    assert installed == "install subversion"


@pytest.mark.parametrize(
    ("present", "reason"),
    [
        ((), "this machine has no apt-get"),
        (("apt-get",), "this user is not root, and sudo is missing or needs a password"),
        (("apt-get", "sudo"), "this user is not root, and sudo is missing or needs a password"),
    ],
)
def test_setup_without_root_or_apt_prints_missing_packages(
    machine: Machine, present: tuple[str, ...], reason: str
) -> None:
    machine.user(1000)
    machine.lacks_subversion()
    machine.fakes.remove("vmtouch")
    for name in present:
        machine.has(name, "exit 1")

    done = machine.set_up()

    assert done.returncode == 1
    assert reason in done.stderr
    assert "apt-get install --no-install-recommends subversion vmtouch" in done.stderr
    assert "conda, mamba, micromamba or pixi" in done.stderr
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize(
    ("tool", "called"),
    [
        ("micromamba", "micromamba create --prefix {0}/.conda --file envs/workflow.yaml"),
        ("mamba", "mamba env create --prefix {0}/.conda --file envs/workflow.yaml"),
        ("conda", "conda env create --prefix {0}/.conda --file envs/workflow.yaml"),
    ],
)
def test_setup_without_root_uses_conda(machine: Machine, tool: str, called: str) -> None:
    machine.user(1000)
    machine.lacks_subversion()
    machine.httpd_has_module(False)
    machine.has(tool, CONDA)

    output = machine.set_up_well()

    assert machine.calls() == [called.format(machine.checkout), "priority strict strict"]
    assert "cells over http are skipped" in output and "mod_dav_svn" in output
    which = machine.fakes.run(machine.checkout / "envs/run.sh", "bash", "-c", "type -P svn")
    assert which.stdout.strip() == f"{machine.checkout}/.conda/bin/svn"
    machine.set_up_well()
    assert machine.calls() == []


def test_setup_without_root_uses_pixi(machine: Machine) -> None:
    machine.user(1000)
    machine.lacks_subversion()
    machine.has("pixi", PIXI)

    machine.set_up_well()

    assert machine.calls() == [
        "pixi init --import .tools/pixi/workflow.yaml .tools/pixi",
        "pixi install --manifest-path .tools/pixi/pixi.toml",
    ]
    assert (machine.checkout / ".conda/bin/svn").exists()


def test_setup_failed_conda_prints_its_error(machine: Machine) -> None:
    machine.user(1000)
    machine.lacks_subversion()
    machine.has("conda", "echo the channel is out of reach >&2; exit 1")

    done = machine.set_up()

    assert done.returncode == 1
    assert "the channel is out of reach" in done.stderr
    assert "conda could not make the environment of envs/workflow.yaml" in done.stderr


def test_setup_without_httpd_module_warns_and_succeeds(machine: Machine) -> None:
    machine.user(1000)
    machine.httpd_has_module(False)
    machine.has("apt-get")
    machine.has("sudo", "exit 1")

    first = machine.set_up_well()
    machine.calls()
    second = machine.set_up_well()

    warning = "libapache2-mod-svn is missing"
    assert warning in first and warning in second and "conda-forge" not in first
    assert machine.calls() == [], "no second call of sudo"


def test_setup_as_root_after_user_installs_missing_package(machine: Machine) -> None:
    machine.user(1000)
    machine.fakes.remove("strace")
    machine.has("apt-get")
    machine.set_up_well()
    machine.calls()
    machine.user(0)

    machine.set_up_well()

    assert machine.calls()[0] == "install strace"


def test_setup_after_lost_command_installs_it(machine: Machine) -> None:
    machine.has("apt-get")
    machine.set_up_well()
    machine.calls()
    machine.fakes.remove("svnserve")

    machine.set_up_well()

    assert machine.calls()[0] == "install subversion"


def test_setup_with_old_hyperfine_builds_it(machine: Machine) -> None:
    machine.set_up_well()
    machine.calls()
    machine.hyperfine("1.12.0")
    machine.has("cargo", 'mkdir -p .tools/bin; cp "$PRIVATE/hyperfine" .tools/bin')

    machine.set_up_well()

    built = machine.calls()[0]
    assert built.startswith("cargo install --quiet --locked --root .tools --version 1.")


def test_setup_without_uv_installs_it_from_lock_file(machine: Machine) -> None:
    uv = machine.fakes.bin / "uv"
    uv.rename(machine.private / "uv")
    install = f'[[ $1 == -m ]] && cp {machine.private}/uv "${{0%/*}}"'
    machine.has(
        "python3",
        f"""[[ $1 == -c ]] && exit
mkdir -p "$3/bin"
cat >"$3/bin/python" <<'END'
#!/bin/bash
echo "private python $*" >>{machine.record}
{install}
END
chmod +x "$3/bin/python" """,
    )

    machine.set_up_well()

    calls = machine.calls()
    assert "python3 -m venv .tools/uv" in calls
    (pip,) = [call for call in calls if call.startswith("private python -m pip install")]
    assert "--require-hashes" in pip and pip.endswith("envs/installer.lock")
    assert any(call.startswith("uv pip sync") for call in calls)


def test_setup_without_package_index_fails(machine: Machine) -> None:
    machine.has("uv", f'[[ $2 == sync ]] && {{ echo "dns error" >&2; exit 2; }}\n{UV}')

    done = machine.set_up()

    assert done.returncode == 1
    assert "dns error" in done.stderr
    assert done.stderr.count("could not fetch the Python tools") == 1
    assert machine.set_up().returncode == 1


def test_setup_with_invalid_package_list_fails(machine: Machine) -> None:
    machine.packages.write_text("subversion perhaps svn # why\n")

    done = machine.set_up()

    assert done.returncode == 1
    assert "subversion" in done.stderr and "not 'perhaps'" in done.stderr


BUILD = """
prefix=results/builds/svn-1
[[ $1 == install ]] && prefix=$prefix.pixi/.pixi/envs/default
[[ $1 == init ]] && exit
mkdir -p $prefix/bin
cp "$PRIVATE"/{svn,svnadmin,svnserve} $prefix/bin
"""


@pytest.mark.parametrize("tool", ["micromamba", "mamba", "conda", "pixi"])
def test_make_conda_build_records_its_files(machine: Machine, tool: str) -> None:
    build = machine.checkout / "svn.yaml"
    build.write_text("channels: [conda-forge]\ndependencies: [subversion=1.15.0]\n")
    machine.has(tool, BUILD)
    script = f"cd {machine.checkout}; envs/make_conda_build.sh svn.yaml results/builds/svn-1 record"

    done = machine.fakes.run(
        "bash", "-c", script, RECORD=str(machine.record), PRIVATE=str(machine.private)
    )

    assert done.returncode == 0, done.stderr
    assert len(machine.calls()) == (2 if tool == "pixi" else 1)
    made = machine.checkout / "results/builds/svn-1"
    assert (made / "bin/svn").exists()
    recorded = (machine.checkout / "record").read_text()
    assert re.findall(r"^[0-9a-f]{64}  (\S+)$", recorded, re.MULTILINE) == [
        "bin/svn",
        "bin/svnadmin",
        "bin/svnserve",
    ]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (None, "neither micromamba, mamba, conda nor pixi is on PATH"),
        ("echo out of reach >&2; exit 1", "conda could not make the environment of svn.yaml"),
        ("true", "has no Subversion; put subversion among its dependencies"),
    ],
)
def test_make_conda_build_failed_has_reason(
    machine: Machine, script: str | None, error: str
) -> None:
    (machine.checkout / "svn.yaml").write_text("dependencies: [hello]\n")
    if script is not None:
        machine.has("conda", script)
    command = (
        f"cd {machine.checkout}; envs/make_conda_build.sh svn.yaml results/builds/svn-1 record"
    )
    done = machine.fakes.run("bash", "-c", command)
    assert done.returncode == 1 and error in done.stderr
    assert not (machine.checkout / "record").exists()


def test_setup_with_gcc_builds_libraries(machine: Machine) -> None:
    machine.library.unlink()
    machine.builder.unlink()
    machine.has("gcc", "while [[ $1 != -o ]]; do shift; done; echo built >$2")
    assert "building .tools/lib/svn_reflink.so" in machine.set_up_well()
    assert machine.library.read_text() == machine.builder.read_text() == "built\n"


def test_setup_failed_gcc_warns_once(machine: Machine) -> None:
    machine.library.unlink()
    machine.has("gcc", "exit 1")
    assert "could not be built: cells that need it are skipped" in machine.set_up_well()
    assert not machine.library.exists() and "building" not in machine.set_up_well()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "my work",
            "it's",
            'q"q',
            "d$HOME",
            "[x]",
            "{x}",
            "a:b",
            "b\\s",
            "a;b",
            "a&b",
            "a|b",
            "(p)",
        ),
        *("n\nl", "tail\n", "t\tb", "star*", "q?", "!x", "back`t`", "<x>", "\x1b[31m"),
    ],
)
def test_setup_in_invalid_path_fails_before_installing(machine: Machine, name: str) -> None:
    machine.checkout = machine.checkout.rename(machine.checkout.with_name(name))

    done = machine.set_up()

    assert done.returncode == 1
    (error,) = done.stderr.splitlines()
    assert "the path of the checkout has" in error and "\x1b" not in error
    assert machine.calls() == []
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize("name", ["a=b", "-x", "ünïcode", "a,b@c%2Fd#~+", "-o=--x"])
def test_setup_in_odd_path_calls_uv(machine: Machine, name: str) -> None:
    machine.checkout = machine.checkout.rename(machine.checkout.with_name(name))
    machine.set_up_well()
    assert [call.split()[1] for call in machine.calls() if call.startswith("uv")] == ["venv", "pip"]
    machine.set_up_well()
    assert machine.calls() == []


def test_setup_through_a_link_checks_its_target(machine: Machine) -> None:
    target = machine.checkout.rename(machine.checkout.with_name("my work"))
    machine.checkout.symlink_to(target)
    assert machine.set_up().returncode == 1
    assert machine.calls() == []


@pytest.mark.parametrize("home", ["/nonexistent", "/proc", ""])
def test_setup_without_a_home_keeps_caches_in_the_checkout(machine: Machine, home: str) -> None:
    machine.fakes.add("uv", f"[[ $1 == --version ]] && exit\n{UV}echo cache=$UV_CACHE_DIR\nexit 1")
    done = machine.set_up(HOME=home)
    assert f"cache={machine.checkout}/.tools/caches/uv" in done.stderr


@pytest.mark.parametrize("home", ["/nonexistent", "/proc", ""])
def test_run_without_a_home_keeps_caches_in_the_checkout(machine: Machine, home: str) -> None:
    run = machine.checkout / "envs/run.sh"
    done = machine.fakes.run(run, "bash", "-c", 'echo "$XDG_CACHE_HOME"', HOME=home)
    assert done.stdout == f"{machine.checkout}/.snakemake/caches\n"
