"""The identity of a machine: equal after an upgrade, different for another machine of the same name."""

from pathlib import Path

import pytest

from vcsbench import machine


@pytest.fixture
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a machine with 4 blocks of 128 MiB."""
    for number in range(4):
        (tmp_path / f"memory{number}").mkdir()
    (tmp_path / "block_size_bytes").write_text("8000000\n")
    (tmp_path / "machine-id").write_text("0123456789abcdef\n")
    monkeypatch.setattr(machine, "MEMORY_BLOCKS", tmp_path)
    monkeypatch.setattr(machine, "MACHINE_IDS", (tmp_path / "machine-id",))
    return tmp_path


def test_machine_identity_changes_with_each_part(
    blocks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity(name: str = "localhost", cpu: str = "A processor") -> str:
        return machine.machine_identity(name, cpu)

    assert identity() == identity()
    identities = {identity(), identity(cpu="Another"), identity(name="otherhost")}
    (blocks / "machine-id").write_text("fedcba9876543210\n")
    identities.add(identity())
    (blocks / "memory3").rmdir()
    identities.add(identity())
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4711)
    assert len({*identities, identity()}) == 6


def test_installed_memory_includes_memory_of_the_kernel(blocks: Path) -> None:
    assert machine.installed_memory_bytes() == 4 * 128 << 20
    (blocks / "block_size_bytes").unlink()
    usable = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert usable <= machine.installed_memory_bytes() < usable + (1 << 30)
    assert machine.installed_memory_bytes() % (1 << 30) == 0


def test_host_has_identity_of_this_machine() -> None:
    facts = machine.host()
    assert facts["id"] == machine.machine_identity(facts["name"], facts["cpu"])
