"""Directories and archives as sources: what is loaded from them is the tree that they have."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from project import needs
from vcsbench.errors import UserError
from vcsbench.sources import open_source

pytestmark = needs("svnadmin", "svn")


def a_tree(root: Path) -> Path:
    (root / "empty").mkdir(parents=True)
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/file").write_bytes(bytes(range(256)))
    (root / "deep/nothing").write_text("")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("deep/er/file")
    (root / "away").symlink_to("/nowhere")
    (root / "odd é ü name").write_text("x")
    return root


def loaded(definition: dict[str, Any], tmp_path: Path) -> tuple[Path, list[str]]:
    """An export of what a source makes, and the notes."""
    source = open_source("it", definition)
    source.check()
    dump, repository, export = (tmp_path / name for name in ("it.dump", "repository", "export"))
    with dump.open("wb") as out:
        facts = source.write(out)
    subprocess.run(["svnadmin", "create", repository], check=True)
    with dump.open("rb") as stream:
        subprocess.run(["svnadmin", "load", "-q", repository], stdin=stream, check=True)
    url = f"file://{repository}/{source.tree()}"
    subprocess.run(
        ["svn", "export", "-q", url, export], check=True, env={**os.environ, "LC_ALL": "C.UTF-8"}
    )
    assert facts.revisions == source.estimate().revisions == 1
    return export, facts.notes


def same(one: Path, other: Path) -> bool:
    done = subprocess.run(
        ["diff", "-r", "--no-dereference", one, other], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    return os.access(one / "run", os.X_OK) == os.access(other / "run", os.X_OK)


def packed(root: Path, tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    if name.endswith(".zip"):
        # zipfile follows links.
        with zipfile.ZipFile(path, "w") as archive:
            for found in sorted(root.rglob("*")):
                info = (
                    zipfile.ZipInfo.from_file(found, found.relative_to(root.parent))
                    if not (found.is_symlink())
                    else zipfile.ZipInfo(str(found.relative_to(root.parent)))
                )
                if found.is_symlink():
                    info.external_attr = 0o120777 << 16
                    archive.writestr(info, os.readlink(found))
                elif found.is_dir():
                    archive.writestr(info, b"")
                else:
                    archive.writestr(info, found.read_bytes())
        return path
    plain = tmp_path / "plain.tar"
    with tarfile.open(plain, "w") as archive:
        archive.add(root, root.name)
    program = {"gz": "gzip", "xz": "xz", "zst": "zstd"}.get(name.rpartition(".")[2])
    with plain.open("rb") as content, path.open("wb") as out:
        subprocess.run(
            [*([program, "-c"] if program else ["cat"])], stdin=content, stdout=out, check=True
        )
    return path


def test_a_directory_is_loaded_as_it_is(tmp_path: Path) -> None:
    root = a_tree(tmp_path / "tree")
    (root / ".git").mkdir()
    (root / ".git/config").write_text("")
    os.mkfifo(root / "pipe")
    export, notes = loaded({"source": "directory", "path": str(root)}, tmp_path)
    assert len(notes) == 2 and "neither file, folder nor link" in notes[0]
    (root / "pipe").unlink()
    (root / ".git/config").unlink()
    (root / ".git").rmdir()
    assert same(root, export)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.xz", "a.tar.zst", "a.zip"])
def test_an_archive_is_loaded_as_what_it_was_packed_from(name: str, tmp_path: Path) -> None:
    root = a_tree(tmp_path / "tree-1.0")
    path = packed(root, tmp_path, name)
    export, notes = loaded({"source": "archive", "path": str(path)}, tmp_path)
    assert same(root, export) and not notes


def test_an_edit_is_another_identity_and_a_look_is_not(tmp_path: Path) -> None:
    root = a_tree(tmp_path / "tree")
    definition = {"source": "directory", "path": str(root)}
    before = open_source("it", definition).identity()
    assert open_source("it", definition).identity() == before
    (root / "deep/nothing").write_text("something")
    assert open_source("it", definition).identity() != before


def test_nothing_gets_out_of_the_folder_that_an_archive_is_unpacked_in(tmp_path: Path) -> None:
    path = tmp_path / "bad.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        for name in ("out/escaped", "../escaped", "inside"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(UserError, match="cannot be unpacked"):
        loaded({"source": "archive", "path": str(path)}, tmp_path)
    assert not (tmp_path / "escaped").exists() and not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize(
    ("source", "make", "says"),
    [
        ("directory", lambda p: None, "does not exist"),
        ("directory", lambda p: p.write_text(""), "is no folder"),
        ("archive", lambda p: None, "does not exist"),
        ("archive", lambda p: p.mkdir(), "is no file"),
        ("archive", lambda p: p.write_text("text"), "is no archive"),
    ],
)
def test_what_is_none_is_one_sentence(source: str, make: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "it"
    make(path)
    with pytest.raises(UserError, match=rf"repositories\.it\.path: {path} {says}"):
        open_source("it", {"source": source, "path": str(path)}).check()


def test_a_damaged_archive_is_one_sentence(tmp_path: Path) -> None:
    path = packed(a_tree(tmp_path / "tree"), tmp_path, "a.tar.gz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UserError, match=f"{path}: cannot be unpacked"):
        loaded({"source": "archive", "path": str(path)}, tmp_path)
