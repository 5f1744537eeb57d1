"""What a tracer sees of a program at its exit: peak memory and mapped libraries."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from project import needs
from vcsbench.kernel import read
from vcsbench.measure.capture import ExitTracer, mapped_libraries

MIB = 1 << 20
EAT = "a = bytearray({0} << 20)\na[::4096] = b'x' * len(a[::4096])\n"


def trace(*argv: str) -> tuple[int, ExitTracer]:
    """Run a command and return its exit code and its tracer."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        tracer = ExitTracer(process.pid)
        process.stdout.read()
        tracer.join(20)
        assert not tracer.is_alive()
        code = process.wait()
    if tracer.peak_bytes is None:
        pytest.skip("this system allows no tracing")
    return code, tracer


@needs("svn")
def test_exit_tracer_has_libraries_of_wrapped_program() -> None:
    code, tracer = trace("sh", "-c", "sleep 0.2; svn --version --quiet; exit 4")
    names = [os.path.basename(path) for path in mapped_libraries(tracer.maps)]
    assert code == 4 and any(name.startswith("libsvn_client") for name in names)
    assert len(set(names)) == len(names)


def test_exit_tracer_peak_excludes_memory_of_parent() -> None:
    held = bytearray(200 * MIB)
    held[::4096] = b"x" * len(held[::4096])
    code, tracer = trace("sleep", "0.2")
    assert code == 0 and 0 < (tracer.peak_bytes or 0) < 20 * MIB
    assert len(held)


WRAPPER = f"sleep 0.2; '{sys.executable}' -c \"$0\"; exit 5"


@pytest.mark.parametrize(
    ("argv", "code", "peak_mib"),
    [
        ([sys.executable, "-c", EAT.format(100) + "del a\nraise SystemExit(3)"], 3, 100),
        (["sh", "-c", WRAPPER, EAT.format(60)], 5, 60),
    ],
    ids=["freed memory", "child"],
)
def test_exit_tracer_peak_is_largest_of_all(argv: list[str], code: int, peak_mib: int) -> None:
    exit_code, tracer = trace(*argv)
    assert exit_code == code
    assert peak_mib * MIB < (tracer.peak_bytes or 0) < (peak_mib + 40) * MIB


def test_exit_tracer_killed_program_is_released() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        tracer = ExitTracer(process.pid)
        process.kill()
        tracer.join(20)
        assert not tracer.is_alive() and process.wait() == -9


# Freeing many small pages takes long enough to attach in the middle of an exit.
EXITING = """
import mmap, os
held = mmap.mmap(-1, 400 << 20)
held.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(held), mmap.PAGESIZE):
    held[at] = 1
os._exit(3)
"""


def test_exit_tracer_exiting_program_is_left_to_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", EXITING]) as process:
        while read(f"/proc/{process.pid}/maps"):
            pass
        tracer = ExitTracer(process.pid)
        tracer.join(20)
        assert not tracer.is_alive()
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert status and status.si_status == 3
        assert process.wait() == 3
