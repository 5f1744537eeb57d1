"""A checkout on a machine that is made of stand-ins, for the tests of envs/setup.sh."""

from __future__ import annotations

import shutil
from pathlib import Path
from subprocess import CompletedProcess

from fakes import Fakes

ROOT = Path(__file__).parent.parent
SUBVERSION = ("svn", "svnadmin", "svnserve", "svnlook", "svnbench")
# Every command that envs/debian-packages.txt names, but those of hyperfine and of Python.
COMMANDS = (*SUBVERSION, "apache2", "git", "zstd", "vmtouch", "strace", "setpriv", "fincore")
COMMANDS += ("rsync", "hg", "fossil")
COMMANDS += ("mkfs.btrfs", "mkfs.xfs", "mkfs.ext4", "losetup", "mount", "gcc")

UV = """
if [[ $1 == venv ]]; then
    mkdir -p .venv/bin
    echo "VIRTUAL_ENV=$PWD/.venv" >.venv/bin/activate
    printf '#!/bin/bash\\n' >.venv/bin/python
    chmod +x .venv/bin/python
elif [[ "$1 $2" == "pip sync" ]]; then
    echo "PYTHONDONTWRITEBYTECODE=${PYTHONDONTWRITEBYTECODE-unset}" >>"$RECORD"
fi
"""
# Stands for the script that root runs: it makes the commands of the packages appear.
INSTALL = """#!/bin/bash
echo "install $*" >>"$RECORD"
for package in "$@"; do
    case $package in
    subversion) names="svn svnadmin svnserve svnlook svnbench" ;;
    *) names=$package ;;
    esac
    for name in $names; do [[ -e $PRIVATE/$name ]] && cp "$PRIVATE/$name" "$BIN"; done
done
true
"""


class Machine:
    """A checkout on a machine that has everything, until a test takes something away."""

    def __init__(self, folder: Path) -> None:
        self.fakes = Fakes(folder / "machine")
        self.checkout = folder / "checkout"
        shutil.copytree(ROOT / "envs", self.checkout / "envs")
        shutil.copy2(ROOT / "pyproject.toml", self.checkout)
        # No stand-in can hide the module that this machine may have: the list asks for another.
        self.httpd_has_module(True)
        (self.checkout / "envs/setup/install-debian-packages.sh").write_text(INSTALL)
        for name in COMMANDS:
            self.fakes.add(name, silent=True)
        self.hyperfine("1.20.0")
        self.user(0)
        # What is built, and what tests need beside packages, is there.
        self.library.parent.mkdir(parents=True)
        self.library.touch()
        self.builder.touch()
        (self.checkout / ".tools/nfs-guest").mkdir()
        self.fakes.add(
            "uv", f"[[ $1 == --version ]] && exit\n{UV.replace('$RECORD', str(self.record))}"
        )
        # What conda and the package manager can bring.
        self.private = folder / "private"
        self.private.mkdir()
        for name in ("python3", *SUBVERSION, "hyperfine"):
            shutil.copy2(self.fakes.bin / name, self.private / name, follow_symlinks=False)

    @property
    def record(self) -> Path:
        return self.fakes.record

    @property
    def library(self) -> Path:
        return self.checkout / ".tools/lib/svn_reflink.so"

    @property
    def builder(self) -> Path:
        return self.checkout / ".tools/lib/build_tree"

    @property
    def packages(self) -> Path:
        return self.checkout / "envs/debian-packages.txt"

    def httpd_has_module(self, there: bool) -> None:
        text = (ROOT / "envs/debian-packages.txt").read_text()
        module = "/bin/sh" if there else "mod_of_nowhere.so"
        self.packages.write_text(text.replace("mod_dav_svn.so", module))

    def hyperfine(self, version: str) -> None:
        self.fakes.add("hyperfine", f"echo hyperfine {version}", silent=True)

    def user(self, number: int) -> None:
        self.fakes.add("id", f"echo {number}", silent=True)

    def lacks_subversion(self) -> None:
        self.fakes.remove(*SUBVERSION)

    def has(self, name: str, script: str = "") -> None:
        for variable, path in (
            ("RECORD", self.record),
            ("PRIVATE", self.private),
            ("BIN", self.fakes.bin),
        ):
            script = script.replace(f"${variable}", str(path)).replace(
                f"${{{variable}}}", str(path)
            )
        self.fakes.add(name, script)

    def set_up(self, *options: str, **environment: str) -> CompletedProcess[str]:
        return self.fakes.run(
            self.checkout / "envs/setup.sh",
            *options,
            RECORD=str(self.record),
            PRIVATE=str(self.private),
            BIN=str(self.fakes.bin),
            **environment,
        )

    def set_up_well(self, *options: str, **environment: str) -> str:
        """Set up, and give back what it said."""
        done = self.set_up(*options, **environment)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def calls(self) -> list[str]:
        """The calls since the last time, those left out that only ask a program for its version."""
        return [call for call in self.fakes.calls() if not call.endswith("--version")]
