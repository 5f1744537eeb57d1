"""When a guest is booted once more, with a program in its kernel's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from project import needs
from vcsbench.errors import UserError
from vcsbench.storages import guest

pytestmark = needs("mkfs.ext4", "taskset", "setpriv")
PANIC = "Kernel panic - not syncing: Attempted to kill init!"


class Guest:
    """`boots`: what each boot does, in the shell, in the guest's `out`; the last one is repeated."""

    def __init__(self, path: Path, *boots: str) -> None:
        self.path = path
        kernel = path / guest.TOOLS / "usr/bin/linux"
        kernel.parent.mkdir(parents=True)
        cases = [f"{number}) {does} ;;" for number, does in enumerate(boots, 1)]
        kernel.write_text(
            "#!/bin/sh\n"
            f"cd {path}/own/out; echo >>../boots\n"
            f"case $(wc -l <../boots) in\n{' '.join(cases)} *) {boots[-1]} ;;\nesac\n"
        )
        kernel.chmod(0o755)

    def run(self) -> int:
        own = self.path / "own"
        own.mkdir()
        image = own / "image"
        with image.open("wb") as file:
            file.truncate(16 << 20)
        return guest.run(self.path, own, ["true"], image, 10)

    @property
    def boots(self) -> int:
        return len((self.path / "own/boots").read_text())


def test_one_whose_kernel_gives_up_is_booted_once_more(tmp_path: Path) -> None:
    here = Guest(tmp_path, f"echo '{PANIC}'", "echo 3 >code")
    assert here.run() == 3
    assert here.boots == 2


def test_one_whose_kernel_gives_up_again_says_why(tmp_path: Path) -> None:
    here = Guest(tmp_path, f"echo '{PANIC}'; echo trace; echo of; echo calls")
    with pytest.raises(UserError, match=f"ended before it ran the command: {PANIC}$"):
        here.run()
    assert here.boots == 2


@pytest.mark.parametrize("does", [f": >began; echo '{PANIC}'", "echo 'no such device'"])
def test_one_that_has_begun_or_says_why_is_not(tmp_path: Path, does: str) -> None:
    here = Guest(tmp_path, does)
    with pytest.raises(UserError):
        here.run()
    assert here.boots == 1
