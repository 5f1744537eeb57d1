"""Boots of a guest, with a script in place of its kernel."""

from contextlib import nullcontext

import pytest

import project
from vcsbench.errors import UserError
from vcsbench.storages import guest

PANIC = "Kernel panic - not syncing: Attempted to kill init!"


class FakeGuest:
    """A guest with a shell command for each boot, run in its `out`. The last one is repeated."""

    def __init__(self, path, *boots):
        self.path = path
        cases = " ".join(f"{number}) {command} ;;" for number, command in enumerate(boots, 1))
        select = f"case $(wc -l <../boots) in\n{cases} *) {boots[-1]} ;;\nesac\n"
        script = f"#!/bin/sh\ncd {path}/own/out; echo >>../boots\n{select}"
        project.write_program(path / guest.TOOLS / "usr/bin/linux", script)

    def run(self):
        folder = self.path / "own"
        folder.mkdir()
        with (folder / "image").open("wb") as file:
            file.truncate(16 << 20)
        return guest.run_in_guest(self.path, folder, ["true"], folder / "image", limit_s=10)

    @property
    def boots(self):
        return len((self.path / "own/boots").read_text())


@project.needs("mkfs.ext4", "taskset", "setpriv")
@pytest.mark.parametrize(
    ("boots", "end", "number"),
    [
        ((f"echo '{PANIC}'", "echo 3 >code"), "", 2),
        ((f"echo '{PANIC}'; echo trace; echo of; echo calls",), rf"{PANIC}\. Run again", 2),
        ((f": >began; echo '{PANIC}'",), rf"{PANIC}\. Run again", 1),
        (("echo 'no such device'",), r"no such device\. Run again", 1),
    ],
)
def test_run_in_guest_boots_again_only_after_a_panic_before_its_start(tmp_path, boots, end, number):
    booted = FakeGuest(tmp_path, *boots)
    with pytest.raises(UserError, match=end) if end else nullcontext():
        assert booted.run() == 3
    assert booted.boots == number
