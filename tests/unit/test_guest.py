"""Boots of a guest, with a script in place of its kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from project import needs
from vcsbench.errors import UserError
from vcsbench.storages import guest

pytestmark = needs("mkfs.ext4", "taskset", "setpriv")
PANIC = "Kernel panic - not syncing: Attempted to kill init!"


class Guest:
    """A guest with a shell command for each boot, run in its `out`. The last one is repeated."""

    def __init__(self, path: Path, *boots: str) -> None:
        self.path = path
        kernel = path / guest.TOOLS / "usr/bin/linux"
        kernel.parent.mkdir(parents=True)
        cases = " ".join(f"{number}) {command} ;;" for number, command in enumerate(boots, 1))
        select = f"case $(wc -l <../boots) in\n{cases} *) {boots[-1]} ;;\nesac\n"
        kernel.write_text(f"#!/bin/sh\ncd {path}/own/out; echo >>../boots\n{select}")
        kernel.chmod(0o755)

    def run(self) -> int:
        folder = self.path / "own"
        folder.mkdir()
        with (folder / "image").open("wb") as file:
            file.truncate(16 << 20)
        return guest.run(self.path, folder, ["true"], folder / "image", 10)

    @property
    def boots(self) -> int:
        return len((self.path / "own/boots").read_text())


def test_run_after_kernel_panic_boots_again(tmp_path: Path) -> None:
    booted = Guest(tmp_path, f"echo '{PANIC}'", "echo 3 >code")
    assert (booted.run(), booted.boots) == (3, 2)


@pytest.mark.parametrize(
    ("boot", "end", "boots"),
    [
        (f"echo '{PANIC}'; echo trace; echo of; echo calls", f"{PANIC}$", 2),
        (f": >began; echo '{PANIC}'", f"{PANIC}$", 1),
        ("echo 'no such device'", "no such device$", 1),
    ],
)
def test_run_that_never_ends_well_is_user_error(
    tmp_path: Path, boot: str, end: str, boots: int
) -> None:
    booted = Guest(tmp_path, boot)
    with pytest.raises(UserError, match=end):
        booted.run()
    assert booted.boots == boots
