"""The peak memory of a program, whatever the memory of the process that started it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vcsbench.measure.peak import Peak

MIB = 1 << 20
EAT = "a = bytearray({0} << 20)\na[::4096] = b'x' * len(a[::4096])\n"


def peak_of(argv: list[str], **options: object) -> tuple[int, int]:
    """The exit code of a command and its peak."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        peak = Peak(process.pid)
        process.stdout.read()
        peak.join(20)
        assert not peak.is_alive()
        code = process.wait()
    if peak.bytes is None:
        pytest.skip("this system allows no tracing")
    return code, peak.bytes


def test_a_small_program_of_a_large_parent_is_small() -> None:
    held = bytearray(200 * MIB)
    held[::4096] = b"x" * len(held[::4096])
    code, peak = peak_of(["sleep", "0.2"])
    assert code == 0 and 0 < peak < 20 * MIB
    assert len(held)


def test_memory_that_was_given_back_counts() -> None:
    code, peak = peak_of([sys.executable, "-c", EAT.format(100) + "del a\nraise SystemExit(3)"])
    assert code == 3 and 100 * MIB < peak < 140 * MIB


def test_of_a_program_and_what_it_starts_the_largest_counts() -> None:
    wrapper = f"sleep 0.2; '{sys.executable}' -c \"$0\"; exit 5"
    code, peak = peak_of(["sh", "-c", wrapper, EAT.format(60)])
    assert code == 5 and 60 * MIB < peak < 100 * MIB


def test_a_program_that_is_killed_is_let_go() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        peak = Peak(process.pid)
        process.kill()
        peak.join(20)
        assert not peak.is_alive() and process.wait() == -9
