"""Which machine it is: two of one name are told apart, and an upgrade makes no other of it."""

from pathlib import Path

import pytest

from vcsbench.measure import host


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a machine with 4 blocks of 128 MiB."""
    for number in range(4):
        (tmp_path / f"memory{number}").mkdir()
    (tmp_path / "block_size_bytes").write_text("8000000\n")
    (tmp_path / "machine-id").write_text("0123456789abcdef\n")
    monkeypatch.setattr(host, "MEMORY_BLOCKS", tmp_path)
    monkeypatch.setattr(host, "MACHINE_IDS", (tmp_path / "machine-id",))
    return tmp_path


def test_the_same_machine_is_the_same(machine: Path) -> None:
    assert host.machine_identity("localhost", "A processor") == host.machine_identity(
        "localhost", "A processor"
    )


def test_another_machine_of_the_same_name_is_another(machine: Path) -> None:
    before = host.machine_identity("localhost", "A processor")
    (machine / "machine-id").write_text("fedcba9876543210\n")
    assert host.machine_identity("localhost", "A processor") != before


def test_other_parts_make_another_machine(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {host.machine_identity("localhost", "A processor")}
    found.add(host.machine_identity("localhost", "Another processor"))
    found.add(host.machine_identity("otherhost", "A processor"))
    (machine / "memory3").rmdir()
    found.add(host.machine_identity("localhost", "A processor"))
    monkeypatch.setattr(host.os, "cpu_count", lambda: 4711)
    found.add(host.machine_identity("localhost", "A processor"))
    assert len(found) == 5


def test_memory_is_that_of_the_machine_not_what_a_kernel_leaves_of_it(machine: Path) -> None:
    assert host.installed_memory_bytes() == 4 * 128 << 20
    (machine / "block_size_bytes").unlink()
    left = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert left <= host.installed_memory_bytes() < left + (1 << 30)
    assert host.installed_memory_bytes() % (1 << 30) == 0


def test_the_identity_stands_in_the_context_of_this_machine() -> None:
    machine = host.host()
    assert machine["id"] == host.machine_identity(machine["name"], machine["cpu"])
