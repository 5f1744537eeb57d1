"""The scripts of envs/ on machines of stand-in programs, and the versions in its lock files."""

import os
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
import yaml

from fake_machine import SUBVERSION, UV, Machine
from fakes import Fakes
from project import HANGING_S, ROOT, mounted

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
def machine(tmp_path):
    return Machine(tmp_path)


def uv_commands(machine):
    return [call.split()[1] for call in machine.calls() if call.startswith("uv")]


def test_setup_on_complete_machine_makes_python_environment_once(machine):
    machine.has("apt-get")
    machine.has("sudo")
    machine.set_up_well(PYTHONDONTWRITEBYTECODE="1")
    venv, sync, bytecode = machine.calls()
    assert re.fullmatch(r"uv venv .*--python >=3\.11,<3\.\d+ \.venv", venv)
    assert sync.startswith("uv pip sync") and sync.endswith("envs/python.lock")
    assert "--require-hashes" in sync and "--compile-bytecode" in sync
    assert bytecode == "PYTHONDONTWRITEBYTECODE=unset"
    assert machine.set_up_well() == "" and machine.fakes.calls() == []


def test_setup_with_changed_lock_file_or_moved_checkout_is_repeated(machine):
    machine.set_up_well()
    machine.calls()
    with (machine.checkout / "envs/python.lock").open("a") as lock:
        lock.write("# changed\n")
    machine.set_up_well()
    assert uv_commands(machine) == ["pip"]
    machine.checkout = machine.checkout.rename(machine.checkout.with_name("moved"))
    machine.set_up_well()
    assert uv_commands(machine) == ["venv", "pip"]


def test_setup_as_root_installs_missing_packages_only(machine):
    machine.has("apt-get")
    machine.has("sudo")
    machine.lacks_subversion()
    machine.fakes.remove("strace")
    lists = machine.checkout / "envs/list-missing.sh"
    output = machine.fakes.run(lists).stdout
    assert "subversion strace" in output and ".venv" in output
    rows = [line.split("\t") for line in machine.fakes.run(lists, "--table").stdout.splitlines()]
    assert [row[:2] for row in rows] == [["must", "subversion"], ["may", "strace"]]
    assert machine.calls() == []
    assert "strace is missing" in machine.set_up_well()
    assert machine.calls()[0] == "install subversion strace"


def test_setup_as_user_installs_by_sudo(machine):
    machine.user(1000)
    machine.has("apt-get")
    machine.has("sudo", '[[ $2 == true ]] && exit\nshift\n"$@"')
    machine.lacks_subversion()
    machine.set_up_well()
    probe, by_sudo, installed = machine.calls()[:3]
    assert probe == "sudo -n true" and installed == "install subversion"
    assert by_sudo.endswith("envs/setup/install-debian-packages.sh subversion")


@pytest.mark.parametrize("present", [(), ("apt-get",), ("apt-get", "sudo")])
def test_setup_without_root_or_apt_prints_missing_packages(machine, present):
    machine.user(1000)
    machine.lacks_subversion()
    machine.fakes.remove("vmtouch")
    for name in present:
        machine.has(name, "exit 1")
    done = machine.set_up()
    assert done.returncode == 1 and not (machine.checkout / ".venv").exists()
    assert ("not root" if present else "no apt-get") in done.stderr
    assert "apt-get install --no-install-recommends subversion vmtouch" in done.stderr
    assert "conda, mamba, micromamba or pixi" in done.stderr


OF_PIXI = [
    "pixi init --import .tools/pixi/workflow.yaml .tools/pixi",
    "pixi install --manifest-path .tools/pixi/pixi.toml",
]


@pytest.mark.parametrize("tool", ["micromamba", "mamba env", "conda env", "pixi"])
def test_setup_without_root_uses_conda(machine, tool):
    machine.user(1000)
    machine.lacks_subversion()
    machine.httpd_has_module(False)
    machine.has(tool.split()[0], PIXI if tool == "pixi" else CONDA)
    output = machine.set_up_well()
    created = f"{tool} create --prefix {machine.checkout}/.conda --file envs/workflow.yaml"
    of_conda = [created, "priority strict strict"]
    assert machine.calls() == (OF_PIXI if tool == "pixi" else of_conda)
    assert "mod_dav_svn" in output
    which = machine.fakes.run(machine.checkout / "envs/run.sh", "bash", "-c", "type -P svn")
    assert which.stdout.strip() == f"{machine.checkout}/.conda/bin/svn"
    machine.set_up_well()
    assert machine.calls() == []
    # The programs in .conda do not count when it is made again.
    with (machine.checkout / "envs/python.lock").open("a") as lock:
        lock.write("# changed\n")
    machine.set_up_well()
    assert machine.calls() == (OF_PIXI if tool == "pixi" else of_conda)
    assert not (machine.checkout / ".venv").exists()


def test_setup_for_a_cluster_without_root_adds_its_plugins_to_conda(machine):
    machine.user(1000)
    machine.lacks_subversion()
    machine.has("conda", CONDA)
    plugins = [f"{name}=={version}" for name, version in GROUPS["cluster"].items()]
    # Once given, the option stays.
    for options in (["--cluster"], []):
        machine.set_up_well(*options)
        expected = ["uv", "pip", "install", "--quiet", "--python", ".conda/bin/python", *plugins]
        assert machine.calls()[-1].split() == expected
        machine.set_up_well(*options)
        assert machine.calls() == []


def test_setup_with_old_hyperfine_builds_it(machine):
    machine.set_up_well()
    machine.calls()
    machine.hyperfine("1.12.0")
    machine.has("cargo", 'mkdir -p .tools/bin; cp "$PRIVATE/hyperfine" .tools/bin')
    machine.set_up_well()
    built = machine.calls()[0]
    assert built.startswith("cargo install --quiet --locked --root .tools --version 1.")
    # It is also on the PATH of somebody who activates .venv.
    program = machine.checkout / ".tools/bin/hyperfine"
    assert (machine.checkout / ".venv/bin/hyperfine").resolve() == program.resolve()


def test_setup_that_cannot_build_hyperfine_names_cargo_and_not_apt(machine):
    machine.hyperfine("1.12.0")
    machine.has("cargo", "exit 1")
    done = machine.set_up()
    assert done.returncode == 1 and "too old" in done.stderr
    assert "cargo on PATH" in done.stderr and "apt-get install" not in done.stderr


def test_setup_that_cannot_build_hyperfine_names_other_missing_packages_for_apt(machine):
    machine.hyperfine("1.12.0")
    machine.has("cargo", "exit 1")
    machine.lacks_subversion()
    done = machine.set_up()
    assert done.returncode == 1
    assert "too old" in done.stderr and "this machine has no apt-get" in done.stderr
    (remedy,) = [line for line in done.stderr.splitlines() if "cargo on PATH" in line]
    packages = remedy.partition("apt-get install --no-install-recommends ")[2].split()
    assert packages[0] == "subversion" and "hyperfine" not in packages


def test_setup_with_packages_that_no_source_has_names_the_sources(machine):
    machine.has("apt-get")
    machine.lacks_subversion()
    for name in SUBVERSION:
        (machine.private / name).unlink()
    done = machine.set_up()
    assert done.returncode == 1 and "the package sources of this machine" in done.stderr
    assert "a package source" in done.stderr and "apt-get install" not in done.stderr


def test_list_of_missing_packages_has_those_that_fetch_and_build_tools(machine):
    machine.fakes.remove("uv", "hyperfine")
    machine.fakes.add("python3", "exit 1", silent=True)
    machine.fakes.add("apt-cache", 'echo "  Candidate: 1.12.0-3"', silent=True)
    lists = machine.checkout / "envs/list-missing.sh"
    sentence, *_ = machine.fakes.run(lists).stdout.splitlines()
    assert {"hyperfine", "python3-venv", "cargo"} <= {*sentence.split()}
    rows = [line.split("\t") for line in machine.fakes.run(lists, "--table").stdout.splitlines()]
    assert [row[:2] for row in rows] == [["must", "hyperfine"]]


def test_setup_after_an_upgrade_of_python_is_repeated(machine):
    machine.set_up_well()
    machine.calls()
    python = machine.checkout / ".venv/bin/python"
    python.write_text('#!/bin/bash\n[[ $* != *"import yaml"* ]]\n')
    machine.set_up_well()
    assert uv_commands(machine) == ["pip"]


def test_setup_in_a_checkout_that_was_below_another_folder_makes_a_new_environment(
    machine, tmp_path
):
    path = machine.checkout
    # The new path is the end of the old one.
    old_path = Path(f"{tmp_path}/mnt{path}")
    old_path.parent.mkdir(parents=True)
    machine.checkout = path.rename(old_path)
    machine.set_up_well()
    machine.calls()
    machine.checkout = old_path.rename(path)
    machine.set_up_well()
    assert uv_commands(machine) == ["venv", "pip"]


def test_setup_with_setpriv_without_pdeathsig_names_util_linux(machine):
    refusal = "case $1 in --pdeathsig*) exit 1 ;; esac"
    machine.fakes.add("setpriv", refusal, silent=True)
    done = machine.set_up()
    assert done.returncode == 1 and "util-linux" in done.stderr


def test_setup_without_execute_bits_runs_by_bash(machine):
    for script in (machine.checkout / "envs").rglob("*.sh"):
        script.chmod(0o644)
    done = machine.fakes.run("bash", machine.checkout / "envs/setup.sh", **machine.paths)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_setup_on_a_file_system_without_programs_is_refused(tmp_path):
    with mounted(tmp_path / "noexec", "noexec,mode=755") as folder:
        machine = Machine(tmp_path)
        checkout = shutil.copytree(machine.checkout, folder / "checkout")
        done = machine.fakes.run("bash", checkout / "envs/setup.sh", **machine.paths)
    assert done.returncode == 1 and "noexec" in done.stderr and machine.calls() == []


def test_setup_without_uv_installs_it_from_its_lock_file(machine):
    (machine.fakes.bin / "uv").rename(machine.private / "uv")
    # `python3 -m venv` makes a Python whose pip installs uv next to it.
    machine.has(
        "python3",
        f"""[[ $1 == -c ]] && exit
mkdir -p "$3/bin"
cat >"$3/bin/python" <<'END'
#!/bin/bash
elsewhere="${{PIP_TARGET-}}${{PIP_PREFIX-}}${{PIP_ROOT-}}${{PIP_DRY_RUN-}}"
echo "private python $* (PIP_USER=$PIP_USER$elsewhere)" >>{machine.record}
[[ $1 == -m ]] && cp {machine.private}/uv "${{0%/*}}"
END
chmod +x "$3/bin/python" """,
    )
    elsewhere = dict.fromkeys(("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"), "/elsewhere")
    machine.set_up_well(PIP_USER="1", PIP_DRY_RUN="1", **elsewhere)
    calls = machine.calls()
    assert "python3 -m venv .tools/uv" in calls
    (pip,) = [call for call in calls if call.startswith("private python -m pip install")]
    assert "--require-hashes" in pip and pip.endswith("envs/installer.lock (PIP_USER=0)")
    assert any(call.startswith("uv pip sync") for call in calls)


def test_setup_with_a_pip_that_installs_elsewhere_names_its_settings(machine):
    # As with `target` in pip.conf, pip succeeds, and uv is not in its environment.
    machine.fakes.remove("uv")
    make_python = 'mkdir -p "$3/bin"; printf "#!/bin/bash\\n" >"$3/bin/python"'
    machine.has("python3", f'[[ $1 == -c ]] && exit\n{make_python}; chmod +x "$3/bin/python"')
    done = machine.set_up()
    assert done.returncode == 1
    assert "uv does not run" in done.stderr and "`python3 -m pip config list`" in done.stderr


def test_setup_hides_a_setting_of_uv_that_excludes_environments(machine):
    script = f'[[ $1 == --version ]] && exit\n{UV}echo "system ${{UV_SYSTEM_PYTHON-unset}}"\nexit 1'
    machine.fakes.add("uv", script)
    assert "system unset" in machine.set_up(UV_SYSTEM_PYTHON="1").stderr


OUT_OF_REACH = "echo the channel is out of reach >&2; exit 1"
NO_INDEX = f'[[ $2 == sync ]] && {{ echo "dns error" >&2; exit 2; }}\n{UV}'


@pytest.mark.parametrize(
    ("tool", "script", "package_list", "errors"),
    [
        ("conda", OUT_OF_REACH, "", ["is out of reach", "could not make the environment of envs"]),
        ("uv", NO_INDEX, "", ["dns error", "could not fetch the Python tools"]),
        ("", "", "subversion perhaps svn # why\n", ["subversion", "not 'perhaps'"]),
    ],
)
def test_setup_failed_step_is_printed_each_time(machine, tool, script, package_list, errors):
    if tool == "conda":
        machine.user(1000)
        machine.lacks_subversion()
    if tool:
        machine.has(tool, script)
    if package_list:
        machine.packages.write_text(package_list)
    for _ in range(2):
        done = machine.set_up()
        assert done.returncode == 1
        assert all(error in done.stderr for error in errors), done.stderr


def test_setup_with_gcc_builds_libraries(machine):
    machine.library.unlink()
    machine.builder.unlink()
    machine.has("gcc", "while [[ $1 != -o ]]; do shift; done; echo built >$2")
    sources = machine.checkout / "workflow" / "native"
    sources.mkdir(parents=True, exist_ok=True)
    for source in (ROOT / "workflow" / "native").glob("*.c"):
        shutil.copy(source, sources)
        # A clock that was wrong can have dated them in the future.
        os.utime(sources / source.name, (time.time() + 9999,) * 2)
    assert "building .tools/lib/svn_reflink.so" in machine.set_up_well()
    assert "building" not in machine.set_up_well()
    assert machine.library.read_text() == machine.builder.read_text() == "built\n"


INVALID = ["my work", "it's", 'q"q', "d$HOME", "[x]", "{x}", "a:b", "b\\s", "a;b", "a&b", "a|b"]
INVALID += ["(p)", "n\nl", "tail\n", "t\tb", "star*", "q?", "!x", "back`t`", "<x>", "\x1b[31m"]


@pytest.mark.parametrize("name", INVALID)
def test_setup_in_invalid_path_fails_before_installing(machine, name):
    target = machine.checkout.rename(machine.checkout.with_name(name))
    link = machine.checkout
    link.symlink_to(target)
    for machine.checkout in (target, link):
        done = machine.set_up()
        assert done.returncode == 1
        (error,) = done.stderr.splitlines()
        assert "checkout" in error and "\x1b" not in error
        assert machine.calls() == [] and not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize("name", ["my work", "{x}", "a:b", "\x1b[31m"])
def test_command_in_path_that_became_invalid_is_refused(machine, name):
    machine.set_up_well()
    machine.has("python")
    machine.calls()
    machine.checkout = machine.checkout.rename(machine.checkout.with_name(name))
    done = machine.fakes.run(machine.checkout / "vcsbench", "plan")
    assert done.returncode == 2
    (error,) = done.stderr.splitlines()
    assert "checkout" in error and "\x1b" not in error
    assert machine.calls() == []


@pytest.mark.parametrize("name", ["a=b", "-x", "ünïcode", "a,b@c%2Fd#~+", "-o=--x"])
def test_setup_in_odd_path_calls_uv(machine, name):
    machine.checkout = machine.checkout.rename(machine.checkout.with_name(name))
    machine.set_up_well()
    assert uv_commands(machine) == ["venv", "pip"]


@pytest.mark.parametrize("home", ["/nonexistent", "/proc", ""])
def test_setup_and_run_without_a_home_keep_caches_in_the_checkout(machine, home):
    machine.fakes.add("uv", f"[[ $1 == --version ]] && exit\n{UV}echo cache=$UV_CACHE_DIR\nexit 1")
    done = machine.set_up(HOME=home)
    assert f"cache={machine.checkout}/.tools/caches/uv" in done.stderr
    run = machine.checkout / "envs/run.sh"
    done = machine.fakes.run(run, "bash", "-c", 'echo "$XDG_CACHE_HOME"', HOME=home)
    assert done.stdout == f"{machine.checkout}/.vcsbench/caches\n"


@pytest.mark.parametrize(
    ("name", "given", "user"), [("", {}, "4711"), ("", {"USER": "me"}, "me"), ("me", {}, "")]
)
def test_run_of_a_user_without_a_name_has_its_number(machine, name, given, user):
    machine.fakes.add("id", f"[[ $1 == -u ]] && echo 4711 || {{ echo {name}; [[ '{name}' ]]; }}")
    run = machine.checkout / "envs/run.sh"
    done = machine.fakes.run(run, "bash", "-c", 'echo "$USER"', **given)
    assert done.stdout == f"{user}\n"


# The script that root runs, in a private mount namespace whose /usr/sbin is empty.

SCRIPT = ROOT / "envs/setup/install-debian-packages.sh"
POLICY = "/usr/sbin/policy-rc.d"
# Only root may have a mount namespace without a user namespace.
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
# Reads the policy as a package's script does during its installation.
APT_GET = f"""
if [[ " $* " == *" install "* ]]; then
    {POLICY} apache2 start; echo "policy says $?" >>"$RECORD"
fi
"""


@pytest.fixture
def fakes(tmp_path):
    if not shutil.which("unshare") or subprocess.call([*UNSHARE, "true"]):
        pytest.skip("this machine gives its users no mount namespaces")
    fakes = Fakes(tmp_path)
    fakes.add("apt-get", APT_GET.replace("$RECORD", str(fakes.record)))
    candidate = '[[ $2 == chromium ]] && echo "  Candidate: (none)" || echo "  Candidate: 1.14.2-4"'
    fakes.add("apt-cache", candidate, silent=True)
    return fakes


def install(fakes, *packages, before="true"):
    """Install in a new namespace, and print the policy file that remains."""
    script = f"""
mount -t tmpfs none /usr/sbin
export PATH={fakes.bin}
{before}
bash {SCRIPT} "$@" || status=$?
cat {POLICY} 2>/dev/null || echo "no policy"
exit "${{status-0}}"
"""
    argv = [*UNSHARE, "bash", "-c", script, "bash", *packages]
    env = {"PATH": "/usr/bin:/bin"}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=HANGING_S)


def test_install_starts_no_service_and_leaves_unknown_packages_out(fakes):
    done = install(fakes, "subversion", "libapache2-mod-svn", "chromium")
    assert done.returncode == 0, done.stderr
    update, installed, policy = fakes.calls()
    assert update.endswith(" update") and "chromium" in done.stderr
    assert installed.endswith(" subversion libapache2-mod-svn")
    assert (policy, done.stdout) == ("policy says 101", "no policy\n")


def test_install_in_another_language_knows_the_packages(fakes):
    words = "[[ $LC_ALL == C ]] && name=Candidate || name=Installationskandidat"
    fakes.add("apt-cache", f'{words}\necho "  $name: 1.14.2-4"', silent=True)
    done = install(fakes, "subversion")
    assert done.returncode == 0, done.stderr
    _, installed, _ = fakes.calls()
    assert installed.endswith(" subversion")


def test_install_keeps_policy_of_administrator(fakes):
    theirs = f"printf '#!/bin/sh\\nexit 104\\n' >{POLICY}; chmod +x {POLICY}"
    done = install(fakes, "subversion", before=theirs)
    assert fakes.calls()[-1] == "policy says 104"
    assert done.stdout == "#!/bin/sh\nexit 104\n"


def test_install_after_killed_install_removes_its_policy(fakes):
    # apt-get kills the script. The policy that remains must allow everything.
    killed = f"""
printf '#!/bin/bash\\nkill -9 $PPID\\n' >{fakes.bin}/killer; chmod +x {fakes.bin}/killer
sed 's|^apt update.*|{fakes.bin}/killer|' {SCRIPT} >{fakes.bin}/install-debian-packages.sh
bash {fakes.bin}/install-debian-packages.sh subversion 2>/dev/null
{POLICY} apache2 start; echo "left behind: $?" >>{fakes.record}
"""
    done = install(fakes, "subversion", before=killed)
    remaining, _, _, policy = fakes.calls()
    assert (remaining, policy) == ("left behind: 0", "policy says 101")
    assert done.stdout == "no policy\n"


# The build from packages of another release

UNPACK = ROOT / "envs/unpack_debian_build.sh"
OS_RELEASE = Path("/etc/os-release")
HAS_CODENAME = OS_RELEASE.exists() and "VERSION_CODENAME=" in OS_RELEASE.read_text()
needs_codename = pytest.mark.skipif(not HAS_CODENAME, reason="this system has no codename")
LOADER = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
# Docker's archive has the same release as the machine's own, and stands before it.
APT_OF_TWO_ARCHIVES = """
case " $* " in
*" indextargets "*)
    . /etc/os-release
    for target in "https://docker.example/ Docker" "https://own.example/ ${ID^}"; do
        line=${3//'$(REPO_URI)'/${target% *}}
        line=${line//'$(RELEASE)'/$VERSION_CODENAME}
        line=${line//'$(ORIGIN)'/${target#* }}
        printf '%s\\n' "$line"
    done
    ;;
*" update "*) cp "${APT_CONFIG%/*}/sources.list" "$SOURCES" ;;
*" install "*) touch "${APT_CONFIG%/*}/cache/archives/all.deb" ;;
esac
"""
# A release whose loader is also reached by an absolute link, which leads out of the unpacked files.
EXTRACT = """
mkdir -p "$3"/{usr/bin,usr/lib/git-core,lib64,usr/lib64} "$3/usr/lib/x86_64-linux-gnu"
touch "$3/usr/lib/x86_64-linux-gnu/libz.so.1"
for name in svn git; do printf '\\177ELF' >"$3/usr/bin/$name"; done
for folder in lib64 usr/lib64; do ln -s /bin/true "$3/$folder/ld-linux-x86-64.so.2"; done
cp "$LOADER" "$3/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
"""
GOOD_LOADER = '[[ $1 == --help ]] && echo "--argv0 STRING" || echo 2.47.3'
OLD_LOADER = "[[ $1 == --help ]] && exit 127; echo 2.30.2"
BROKEN_LOADER = '[[ $1 == --help ]] && echo "--argv0 STRING" || exit 127'


def unpack_build(tmp_path, system, loader):
    """Make a build of stand-in packages in tmp_path/build. The sources of apt are in tmp_path/sources."""
    fakes = Fakes(tmp_path / "machine")
    for name in ("apt-config", "dpkg"):
        fakes.add(name, silent=True)
    fakes.add("apt-get", APT_OF_TWO_ARCHIVES, silent=True)
    fakes.add("dpkg-deb", EXTRACT, silent=True)
    program = fakes.add("loader", loader, silent=True)
    paths = {"LOADER": str(program), "SOURCES": str(tmp_path / "sources")}
    path = f"{fakes.bin}:/usr/bin:/bin"
    return fakes.run("bash", UNPACK, "trixie", tmp_path / "build", system, PATH=path, **paths)


@needs_codename
@pytest.mark.parametrize(("system", "program"), [("subversion", "svn"), ("git", "git")])
def test_unpacked_build_is_of_the_own_archive_and_has_its_own_loader(tmp_path, system, program):
    done = unpack_build(tmp_path, system, GOOD_LOADER)
    assert done.returncode == 0, done.stderr
    sources = (tmp_path / "sources").read_text()
    assert "https://own.example/ trixie main" in sources and "docker" not in sources
    wrapper = (tmp_path / "build/bin" / program).read_text()
    assert f"exec {tmp_path}/build/root/{LOADER} " in wrapper
    assert "2.47.3" in done.stdout


@needs_codename
@pytest.mark.parametrize(
    ("system", "loader", "reason"),
    [
        ("subversion", BROKEN_LOADER, "does not run"),
        ("git", BROKEN_LOADER, "does not run"),
        ("git", OLD_LOADER, "--argv0"),
    ],
)
def test_unpacked_build_that_does_not_run_is_refused_and_removed(tmp_path, system, loader, reason):
    done = unpack_build(tmp_path, system, loader)
    assert done.returncode == 1 and reason in done.stderr
    assert not list(tmp_path.glob("build*"))


# Lock files and conda environments have the versions of pyproject.toml

ENVIRONMENTS = sorted(path.name for path in (ROOT / "envs").glob("*.yaml"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(requirements):
    return dict(requirement.split("==") for requirement in requirements)


RUNTIME = pins(PYPROJECT["project"]["dependencies"])
GROUPS = {name: pins(group) for name, group in PYPROJECT["dependency-groups"].items()}


@pytest.mark.parametrize(
    ("lock", "pinned"),
    [("python.lock", RUNTIME | GROUPS["dev"]), ("installer.lock", GROUPS["installer"])],
)
def test_lock_files_have_the_pinned_versions(lock, pinned):
    text = (ROOT / "envs" / lock).read_text()
    locked = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))
    hashed = re.findall(r"^[a-z0-9._-]+==.* \\\n    --hash=sha256:", text, re.MULTILINE)
    assert {name: locked.get(name) for name in pinned} == pinned
    assert len(hashed) == len(locked)
    assert "://" not in text


def test_rules_name_environments_that_exist():
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    named = set(re.findall(r"envs/([\w-]+\.yaml)", rules))
    assert named, "no rule names an environment"
    assert named <= set(ENVIRONMENTS)


CONDA_NAMES = {"snakemake": "snakemake-minimal"}
# The newest versions of conda that differ from pyproject.toml.
CONDA_HAS = {"snakemake": "9.27.0", "pandas": "3.0.3", "pytest": "9.1.1", "hypothesis": "6.165.10"}
CONDA_HAS |= {"breezy": "3.3.17", "pydantic": "2.13.0"}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_conda_environments_are_strict_and_agree_with_pyproject(name):
    file = yaml.safe_load((ROOT / "envs" / name).read_text())
    assert set(file) == {"channels", "dependencies"}
    for dependency in file["dependencies"]:
        assert re.fullmatch(r"[a-z0-9._-]+=\d+(\.\d+)+(p\d+)?", dependency), dependency
    conda = dict(dependency.split("=") for dependency in file["dependencies"])
    channels = file["channels"]
    assert channels[0] == "conda-forge" and channels[-1] == "nodefaults"
    assert set(channels) <= {"conda-forge", "bioconda", "nodefaults"}
    # Only Snakemake is bioconda's.
    assert ("bioconda" in channels) == ("snakemake-minimal" in conda)
    for package, version in (RUNTIME | GROUPS["dev"]).items():
        expected = CONDA_HAS.get(package, version)
        assert conda.get(CONDA_NAMES.get(package, package), expected) == expected
