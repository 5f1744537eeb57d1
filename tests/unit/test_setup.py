"""envs/setup.sh, branch by branch, on machines that are made of stand-ins."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from fake_machine import UV, Machine

# What stands for conda and the like: environments that have everything but httpd.
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


def test_where_all_is_there_only_the_python_tools_are_made(machine: Machine) -> None:
    machine.has("apt-get")
    machine.has("sudo")

    machine.set_up_well(PYTHONDONTWRITEBYTECODE="1")

    venv, sync, bytecode = machine.calls()
    assert re.fullmatch(r"uv venv .*--python >=3\.11,<3\.\d+ \.venv", venv)
    assert sync.startswith("uv pip sync") and sync.endswith("envs/python.lock")
    assert "--require-hashes" in sync and "--compile-bytecode" in sync
    assert bytecode == "PYTHONDONTWRITEBYTECODE=unset"


def test_again_it_calls_nothing_and_is_quick(machine: Machine) -> None:
    machine.set_up_well()
    machine.calls()

    started = time.monotonic()
    said = machine.set_up_well()

    assert time.monotonic() - started < 1
    assert said == ""
    assert machine.fakes.calls() == []


def test_a_changed_lock_file_is_installed_into_the_same_environment(machine: Machine) -> None:
    machine.set_up_well()
    machine.calls()
    with (machine.checkout / "envs/python.lock").open("a") as lock:
        lock.write("# changed\n")

    machine.set_up_well()

    assert [call.split()[1] for call in machine.calls() if call.startswith("uv")] == ["pip"]


def test_a_checkout_that_was_moved_gets_an_environment_of_its_own(machine: Machine) -> None:
    machine.set_up_well()
    machine.calls()
    machine.checkout = machine.checkout.rename(machine.checkout.with_name("moved"))

    machine.set_up_well()

    assert [call.split()[1] for call in machine.calls() if call.startswith("uv")] == ["venv", "pip"]


def test_root_installs_what_is_missing_and_nothing_else(machine: Machine) -> None:
    machine.has("apt-get")
    machine.has("sudo")
    machine.lacks_subversion()
    machine.fakes.remove("strace")

    said = machine.set_up_well()

    assert machine.calls()[0] == "install subversion strace"
    assert "strace is missing: without it, system calls are not counted." in said


def test_what_would_be_installed_is_said_before(machine: Machine) -> None:
    machine.lacks_subversion()
    machine.fakes.remove("strace")
    lists = machine.checkout / "envs/list-missing.sh"

    said = machine.fakes.run(lists).stdout
    assert "these packages where it may: subversion strace" in said and ".venv" in said
    rows = [line.split("\t") for line in machine.fakes.run(lists, "--table").stdout.splitlines()]
    assert [row[:2] for row in rows] == [["must", "subversion"], ["may", "strace"]]
    assert rows[1][2] == "without it, system calls are not counted"
    assert machine.calls() == []


def test_the_tests_need_more(machine: Machine) -> None:
    machine.has("apt-get")

    machine.set_up_well("--test")
    assert machine.calls()[0] == "install chromium shellcheck"

    machine.set_up_well()
    machine.calls()
    machine.set_up_well("--test")
    machine.set_up_well()
    assert machine.calls() == [], "make test and make report undo each other's set-up"


@pytest.mark.parametrize(
    ("options", "packages"),
    [
        (("--test", "--cluster"), "chromium shellcheck slurm-wlm munge"),
        (("--cluster",), ""),
    ],
)
def test_set_up_installs_slurm_only_for_tests_of_a_cluster(
    machine: Machine, options: tuple[str, ...], packages: str
) -> None:
    machine.has("apt-get")
    # This machine may have a Slurm, which no stand-in can hide.
    packages_file = machine.checkout / "envs/debian-packages-test-cluster.txt"
    text = packages_file.read_text()
    packages_file.write_text(text.replace("munged ", "nowhere ").replace("slurmctld,", "nowhere,"))

    machine.set_up_well(*options)

    installed = [call for call in machine.calls() if call.startswith("install ")]
    assert installed == ([f"install {packages}"] if packages else [])


def test_a_user_installs_by_sudo(machine: Machine) -> None:
    machine.user(1000)
    machine.has("apt-get")
    machine.has("sudo", '[[ $2 == true ]] && exit\nshift\n"$@"')
    machine.lacks_subversion()

    machine.set_up_well()

    asked, by_sudo, installed = machine.calls()[:3]
    assert asked == "sudo -n true"
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
def test_without_root_or_apt_it_says_what_is_missing_and_how_to_get_it(
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
    assert re.search(r"^ +subversion +the programs that are measured$", done.stderr, re.MULTILINE)
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
def test_without_root_conda_brings_all_but_http(machine: Machine, tool: str, called: str) -> None:
    machine.user(1000)
    machine.lacks_subversion()
    machine.httpd_has_module(False)
    machine.has(tool, CONDA)

    said = machine.set_up_well()

    assert machine.calls() == [called.format(machine.checkout), "priority strict strict"]
    assert "cells over http are skipped" in said
    assert "conda-forge's Subversion has no mod_dav_svn" in said
    found = machine.fakes.run(machine.checkout / "envs/run.sh", "bash", "-c", "type -P svn")
    assert found.stdout.strip() == f"{machine.checkout}/.conda/bin/svn"
    machine.set_up_well()
    assert machine.calls() == [], "the second time, it had nothing to do"


def test_without_root_pixi_does_as_well(machine: Machine) -> None:
    machine.user(1000)
    machine.lacks_subversion()
    machine.has("pixi", PIXI)

    machine.set_up_well()

    assert machine.calls() == [
        "pixi init --import .tools/pixi/workflow.yaml .tools/pixi",
        "pixi install --manifest-path .tools/pixi/pixi.toml",
    ]
    assert (machine.checkout / ".conda/bin/svn").exists()


def test_a_conda_that_cannot_is_quoted(machine: Machine) -> None:
    machine.user(1000)
    machine.lacks_subversion()
    machine.has("conda", "echo the channel is out of reach >&2; exit 1")

    done = machine.set_up()

    assert done.returncode == 1
    assert "the channel is out of reach" in done.stderr
    assert "conda could not make the environment of envs/workflow.yaml" in done.stderr


def test_a_missing_module_costs_the_http_cells_only(machine: Machine) -> None:
    machine.user(1000)
    machine.httpd_has_module(False)
    machine.has("apt-get")
    machine.has("sudo", "exit 1")

    first = machine.set_up_well()
    machine.calls()
    second = machine.set_up_well()

    sentence = "libapache2-mod-svn is missing: without it, cells over http are skipped."
    assert sentence in first and sentence in second
    assert "conda-forge" not in first
    assert machine.calls() == [], "sudo was asked again for what it had refused"


def test_what_a_user_could_not_install_root_does(machine: Machine) -> None:
    machine.user(1000)
    machine.fakes.remove("strace")
    machine.has("apt-get")
    machine.set_up_well()
    machine.calls()
    machine.user(0)

    machine.set_up_well()

    assert machine.calls()[0] == "install strace"


def test_a_command_that_vanished_is_noticed(machine: Machine) -> None:
    machine.has("apt-get")
    machine.set_up_well()
    machine.calls()
    machine.fakes.remove("svnserve")

    machine.set_up_well()

    assert machine.calls()[0] == "install subversion"


def test_a_hyperfine_that_is_too_old_is_built(machine: Machine) -> None:
    machine.set_up_well()
    machine.calls()
    machine.hyperfine("1.12.0")
    machine.has("cargo", 'mkdir -p .tools/bin; cp "$PRIVATE/hyperfine" .tools/bin')

    machine.set_up_well()

    built = machine.calls()[0]
    assert built.startswith("cargo install --quiet --locked --root .tools --version 1.")


def test_without_uv_a_private_one_is_installed_from_its_lock_file(machine: Machine) -> None:
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


def test_a_package_index_out_of_reach_is_one_sentence(machine: Machine) -> None:
    machine.has("uv", f'[[ $2 == sync ]] && {{ echo "dns error" >&2; exit 2; }}\n{UV}')

    done = machine.set_up()

    assert done.returncode == 1
    assert "dns error" in done.stderr
    assert done.stderr.count("could not fetch the Python tools") == 1
    assert machine.set_up().returncode == 1, "a set-up that failed counts as finished"


def test_a_wrong_word_in_the_package_list_is_named(machine: Machine) -> None:
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
def test_a_build_is_made_of_a_conda_environment(machine: Machine, tool: str) -> None:
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
    ("script", "said"),
    [
        (None, "neither micromamba, mamba, conda nor pixi is on PATH"),
        ("echo out of reach >&2; exit 1", "conda could not make the environment of svn.yaml"),
        ("true", "has no Subversion; put subversion among its dependencies"),
    ],
)
def test_a_conda_build_that_cannot_be_made_is_a_sentence(
    machine: Machine, script: str | None, said: str
) -> None:
    (machine.checkout / "svn.yaml").write_text("dependencies: [hello]\n")
    if script is not None:
        machine.has("conda", script)
    command = (
        f"cd {machine.checkout}; envs/make_conda_build.sh svn.yaml results/builds/svn-1 record"
    )
    done = machine.fakes.run("bash", "-c", command)
    assert done.returncode == 1 and said in done.stderr
    assert not (machine.checkout / "record").exists()


def test_what_is_in_c_is_built_where_there_is_gcc(machine: Machine) -> None:
    machine.library.unlink()
    machine.builder.unlink()
    machine.has("gcc", "while [[ $1 != -o ]]; do shift; done; echo built >$2")
    assert "building .tools/lib/svn_reflink.so" in machine.set_up_well()
    assert machine.library.read_text() == machine.builder.read_text() == "built\n"


def test_what_gcc_cannot_build_is_said_and_tried_once(machine: Machine) -> None:
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
def test_setup_in_a_path_that_breaks_a_run_refuses_before_it_installs(
    machine: Machine, name: str
) -> None:
    machine.checkout = machine.checkout.rename(machine.checkout.with_name(name))

    done = machine.set_up()

    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert "the path of the checkout has" in sentence and "Move the checkout" in sentence
    assert "\x1b" not in sentence
    assert machine.calls() == []
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize("name", ["a=b", "-x", "ünïcode", "a,b@c%2Fd#~+", "-o=--x"])
def test_setup_in_an_odd_path_that_works_calls_uv(machine: Machine, name: str) -> None:
    machine.checkout = machine.checkout.rename(machine.checkout.with_name(name))
    machine.set_up_well()
    assert [call.split()[1] for call in machine.calls() if call.startswith("uv")] == ["venv", "pip"]
    machine.set_up_well()
    assert machine.calls() == []


def test_setup_through_a_link_looks_at_the_folder_behind_it(machine: Machine) -> None:
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
