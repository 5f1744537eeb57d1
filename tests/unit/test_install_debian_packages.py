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
# Root may have namespaces; others only in a user namespace, where the kernel allows that.
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
# Sees what a package's script would see while it is being installed.
APT_GET = f"""
if [[ " $* " == *" install "* ]]; then
    {POLICY} apache2 start; echo "policy says $?" >>"$RECORD"
    [[ -z ${{BROKEN-}} ]] || {{ echo "E: Unable to correct problems" >&2; exit 100; }}
fi
"""


def namespaces_work() -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(
    not namespaces_work(), reason="this machine gives its users no mount namespaces"
)


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    fakes = Fakes(tmp_path)
    fakes.add("apt-get", APT_GET.replace("$RECORD", str(fakes.record)))
    known = '[[ $2 == chromium ]] && echo "  Candidate: (none)" || echo "  Candidate: 1.14.2-4"'
    fakes.add("apt-cache", known, silent=True)
    return fakes


def install(
    fakes: Fakes, *packages: str, before: str = "true", **environment: str
) -> CompletedProcess[str]:
    """Install in a namespace of its own; the last line of the output is what became of the policy."""
    script = f"""
mount -t tmpfs none /usr/sbin
export PATH={fakes.bin}
{before}
bash {SCRIPT} "$@" || status=$?
cat {POLICY} 2>/dev/null || echo "no policy"
exit "${{status-0}}"
"""
    return subprocess.run(
        [*UNSHARE, "bash", "-c", script, "bash", *packages],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_no_service_starts_meanwhile_and_nothing_stays_behind(fakes: Fakes) -> None:
    done = install(fakes, "subversion", "libapache2-mod-svn")

    assert done.returncode == 0, done.stderr
    update, installed, policy = fakes.calls()
    assert update.endswith(" update")
    assert installed.endswith("install --yes --no-install-recommends subversion libapache2-mod-svn")
    assert policy == "policy says 101"
    assert done.stdout == "no policy\n"


def test_an_administrators_policy_stays_in_charge(fakes: Fakes) -> None:
    theirs = f"printf '#!/bin/sh\\nexit 104\\n' >{POLICY}; chmod +x {POLICY}"

    done = install(fakes, "subversion", before=theirs)

    assert fakes.calls()[-1] == "policy says 104"
    assert done.stdout == "#!/bin/sh\nexit 104\n"


def test_what_a_killed_set_up_left_forbids_nothing_and_is_cleared_away(fakes: Fakes) -> None:
    # A first run that is killed while apt-get runs, then its policy asked.
    killed = f"""
printf '#!/bin/bash\\nkill -9 $PPID\\n' >{fakes.bin}/killer; chmod +x {fakes.bin}/killer
sed 's|^apt update.*|{fakes.bin}/killer|' {SCRIPT} >{fakes.bin}/install-debian-packages.sh
bash {fakes.bin}/install-debian-packages.sh subversion 2>/dev/null
{POLICY} apache2 start; echo "left behind: $?" >>{fakes.record}
"""

    done = install(fakes, "subversion", before=killed)

    left, _, _, policy = fakes.calls()
    assert left == "left behind: 0"
    assert policy == "policy says 101"
    assert done.stdout == "no policy\n"


def test_a_package_that_the_machine_does_not_know_is_left_out(fakes: Fakes) -> None:
    done = install(fakes, "subversion", "chromium")

    assert done.returncode == 0
    assert fakes.calls()[1].endswith("--no-install-recommends subversion")
    assert "sources have no chromium" in done.stderr


def test_a_failure_of_apt_get_is_shown(fakes: Fakes) -> None:
    done = install(fakes, "subversion", BROKEN="yes")

    assert done.returncode != 0
    assert "E: Unable to correct problems" in done.stderr
    assert done.stdout == "no policy\n"
