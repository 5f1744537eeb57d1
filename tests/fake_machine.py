"""A checkout on a machine of stand-in programs, for the tests of envs/setup.sh."""

import shutil
from pathlib import Path
from subprocess import CompletedProcess

from fakes import Fakes
from project import ROOT, write_program

SUBVERSION = ("svn", "svnadmin", "svnserve", "svnlook", "svnbench")
# All commands of envs/debian-packages.txt except hyperfine and Python.
COMMANDS = (*SUBVERSION, "apache2", "git", "zstd", "vmtouch", "strace", "setpriv", "fincore")
COMMANDS += ("rsync", "hg", "fossil", "htpasswd", "openssl", "ssh", "ssh-keygen")
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
# Replaces the script that root runs. It adds the commands of the packages.
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
    """A checkout on a machine that has everything until a test removes something."""

    def __init__(self, folder: Path) -> None:
        self.fakes = Fakes(folder / "machine")
        self.record, self.private = self.fakes.record, folder / "private"
        paths = {"RECORD": self.record, "PRIVATE": self.private, "BIN": self.fakes.bin}
        self.paths = {name: str(path) for name, path in paths.items()}
        self.checkout = folder / "checkout"
        self.packages = self.checkout / "envs/debian-packages.txt"
        self.library = self.checkout / ".tools/lib/svn_reflink.so"
        self.builder = self.checkout / ".tools/lib/build_tree"
        self.relay = self.checkout / ".tools/lib/relay"
        shutil.copytree(ROOT / "envs", self.checkout / "envs")
        for name in ("pyproject.toml", "vcsbench"):
            shutil.copy2(ROOT / name, self.checkout)
        # No stand-in can hide a module of this machine, so the list names another file.
        self.httpd_has_module(True)
        (self.checkout / "envs/setup/install-debian-packages.sh").write_text(INSTALL)
        for name in COMMANDS:
            self.fakes.add(name, silent=True)
        self.hyperfine("1.20.0")
        self.user(0)
        # Built files, and those that tests need next to packages.
        self.library.parent.mkdir(parents=True)
        self.library.touch()
        self.builder.touch()
        self.relay.touch()
        for name in ("nfs-guest", "sshd"):
            (self.checkout / ".tools" / name).mkdir()
        self.has("uv", f"[[ $1 == --version ]] && exit\n{UV}")
        # Programs that conda and the package manager can install.
        self.private.mkdir()
        for name in (*SUBVERSION, "hyperfine"):
            shutil.copy2(self.fakes.bin / name, self.private / name)
        # It has all modules.
        write_program(self.private / "python3", "#!/bin/bash\n")

    def httpd_has_module(self, has_module: bool) -> None:
        text = (ROOT / "envs/debian-packages.txt").read_text()
        module = "/bin/sh" if has_module else "mod_of_nowhere.so"
        self.packages.write_text(text.replace("mod_dav_svn.so", module))

    def hyperfine(self, version: str) -> None:
        self.fakes.add("hyperfine", f"echo hyperfine {version}", silent=True)

    def user(self, number: int) -> None:
        self.fakes.add("id", f"echo {number}", silent=True)

    def lacks_subversion(self) -> None:
        self.fakes.remove(*SUBVERSION)

    def has(self, name: str, script: str = "") -> None:
        for variable, path in self.paths.items():
            script = script.replace(f"${variable}", path).replace(f"${{{variable}}}", path)
        self.fakes.add(name, script)

    def set_up(self, *options: str, **environment: str) -> CompletedProcess[str]:
        variables = {**self.paths, **environment}
        return self.fakes.run(self.checkout / "envs/setup.sh", *options, **variables)

    def set_up_well(self, *options: str, **environment: str) -> str:
        """Set up and return the output. The exit code must be 0."""
        done = self.set_up(*options, **environment)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def calls(self) -> list[str]:
        """Return the calls since the last time without those for a version."""
        return [call for call in self.fakes.calls() if not call.endswith("--version")]
