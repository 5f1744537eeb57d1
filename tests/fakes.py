"""A private PATH with stand-ins for programs that record their calls."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

# Programs of every machine. A test adds all others.
BASICS = (
    "bash cat chmod cp cut dirname env expand flock grep head ln make mkdir mktemp mv python3 rm sed"
    " sha256sum sh sleep realpath sort tail touch tr xargs"
)


class Fakes:
    """A folder `bin` for PATH, and the record of the calls."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.record = folder / "calls"
        self.record.touch()
        for name in BASICS.split():
            program = shutil.which(name)
            assert program, name
            (self.bin / name).symlink_to(program)

    def add(self, name: str, script: str = "", *, silent: bool = False) -> Path:
        """Add a bash script as a program. It records its arguments unless it is silent."""
        program = self.bin / name
        program.unlink(missing_ok=True)
        recording = "" if silent else f'printf "%s\\n" "{name} $*" >>{self.record}\n'
        program.write_text(f"#!/bin/bash\n{recording}{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    def remove(self, *names: str) -> None:
        for name in names:
            (self.bin / name).unlink()

    def calls(self) -> list[str]:
        """Return the calls since the last time as `name word word`."""
        lines = self.record.read_text().splitlines()
        self.record.write_text("")
        return lines

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command with these programs only."""
        return subprocess.run(
            [str(word) for word in command],
            env={"PATH": str(self.bin), "HOME": os.devnull, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
