"""The script that root runs, in a private mount namespace whose /usr/sbin is empty."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fakes import Fakes

SCRIPT = Path(__file__).parents[2] / "envs/setup/install-debian-packages.sh"
POLICY = "/usr/sbin/policy-rc.d"
# Only root may have a mount namespace without a user namespace.
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
# Reads the policy as a package's script does during its installation.
APT_GET = f"""
if [[ " $* " == *" install "* ]]; then
    {POLICY} apache2 start; echo "policy says $?" >>"$RECORD"
    [[ -z ${{BROKEN-}} ]] || {{ echo "E: Unable to correct problems" >&2; exit 100; }}
fi
"""


def has_namespaces() -> bool:
    is_installed = shutil.which("unshare")
    return bool(is_installed) and not subprocess.call([*UNSHARE, "true"], stderr=subprocess.DEVNULL)


pytestmark = pytest.mark.skipif(
    not has_namespaces(), reason="this machine gives its users no mount namespaces"
)


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    fakes = Fakes(tmp_path)
    fakes.add("apt-get", APT_GET.replace("$RECORD", str(fakes.record)))
    candidate = '[[ $2 == chromium ]] && echo "  Candidate: (none)" || echo "  Candidate: 1.14.2-4"'
    fakes.add("apt-cache", candidate, silent=True)
    return fakes


def install(
    fakes: Fakes, *packages: str, before: str = "true", **environment: str
) -> CompletedProcess[str]:
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
    env = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)


def test_install_starts_no_service_and_removes_its_policy(fakes: Fakes) -> None:
    done = install(fakes, "subversion", "libapache2-mod-svn")
    assert done.returncode == 0, done.stderr
    update, installed, policy = fakes.calls()
    assert update.endswith(" update")
    assert installed.endswith("install --yes --no-install-recommends subversion libapache2-mod-svn")
    assert (policy, done.stdout) == ("policy says 101", "no policy\n")


def test_install_keeps_policy_of_administrator(fakes: Fakes) -> None:
    theirs = f"printf '#!/bin/sh\\nexit 104\\n' >{POLICY}; chmod +x {POLICY}"
    done = install(fakes, "subversion", before=theirs)
    assert fakes.calls()[-1] == "policy says 104"
    assert done.stdout == "#!/bin/sh\nexit 104\n"


def test_install_after_killed_install_removes_its_policy(fakes: Fakes) -> None:
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


def test_install_unknown_package_is_left_out(fakes: Fakes) -> None:
    done = install(fakes, "subversion", "chromium")
    assert done.returncode == 0
    assert fakes.calls()[1].endswith("--no-install-recommends subversion")
    assert "sources have no chromium" in done.stderr


def test_install_failure_of_apt_get_is_printed(fakes: Fakes) -> None:
    done = install(fakes, "subversion", BROKEN="yes")
    assert done.returncode != 0
    assert "E: Unable to correct problems" in done.stderr
    assert done.stdout == "no policy\n"
