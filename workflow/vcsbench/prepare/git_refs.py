"""Give a bare git repository a number of refs, in one of git's storages of refs."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vcsbench.storages.file_trees import remove_path
from vcsbench.systems import git_store
from vcsbench.systems.git_program import git_of, init_reftable, object_format, run_git

# The name of an added tag is this and a number: refs/tags/build-00001.
ADDED_TAG = b"refs/tags/build-"


class StoredRef(NamedTuple):
    """A ref, the object that it names, and for a symbolic ref the name of the other ref."""

    name: bytes
    target: bytes
    symbolic: bytes


def set_refs(path: Path, loaded: Path, state: git_store.GitState) -> None:
    """Give the repository at `path` the refs of a state, in the state's storage of refs.

    A state with a number of refs, such as "20000", has the branch of HEAD, further refs of the repository
    `loaded`, and added tags. Any other state has all refs of `loaded`.
    """
    refs = _list_refs(loaded)
    if state.refs != git_store.AS_IS_REFS:
        refs = _choose_refs(refs, int(state.refs), loaded)
    _clear_refs(path, loaded, state.ref_storage)
    # One process of git sets all refs, because a state may have 20,000.
    commands = [b"create %s %s\n" % (ref.name, ref.target) for ref in refs if not ref.symbolic]
    run_git(path, "update-ref", "--stdin", stdin=b"".join(commands))
    if state.ref_storage == git_store.PACKED_REFS:
        run_git(path, "pack-refs", "--all")
    # A symbolic ref is set after the ref that it names.
    for ref in refs:
        if ref.symbolic:
            run_git(path, "symbolic-ref", os.fsdecode(ref.name), os.fsdecode(ref.symbolic))


def _list_refs(path: Path) -> list[StoredRef]:
    listed = run_git(path, "for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)")
    return [StoredRef(*line.split(b"\0")) for line in listed.splitlines()]


def _choose_refs(refs: Iterable[StoredRef], number: int, loaded: Path) -> list[StoredRef]:
    """Return this number of refs: the branch of HEAD, other `refs` by name, and new tags for the rest."""
    # The name of the branch. For a detached HEAD, it is the name of a commit, which no ref has.
    head = (loaded / "HEAD").read_bytes().removeprefix(b"ref: ").strip()
    # Symbolic refs cannot be packed, so they are left out.
    plain = [ref for ref in refs if not ref.symbolic]
    # The branch of HEAD comes first.
    plain.sort(key=lambda ref: (ref.name != head, ref.name))
    chosen = plain[:number]
    if len(chosen) < number:
        commits = run_git(loaded, "rev-list", "--first-parent", "HEAD").split()
        # The user may have tags such as refs/tags/build-00001.
        prefix = ADDED_TAG
        while any(ref.name.startswith(prefix) for ref in chosen):
            prefix += b"x-"
        # After the last commit, the next tag names the first one again.
        for i in range(number - len(chosen)):
            name = b"%s%05d" % (prefix, i + 1)
            chosen.append(StoredRef(name, commits[i % len(commits)], b""))
    return chosen


def _clear_refs(path: Path, loaded: Path, storage: str) -> None:
    """Replace all refs of the repository at `path` by an empty storage of refs, such as REFTABLE.

    HEAD becomes the HEAD of the repository `loaded`.
    """
    for name in ("packed-refs", "refs", "reftable"):
        remove_path(path / name)
    # Such as `ref: refs/heads/main`, or the name of a commit if HEAD is detached.
    head = os.fsdecode((loaded / "HEAD").read_bytes())
    object_hash = object_format(loaded)
    # A new, empty repository has the files that this one needs. Its configuration names the storage of refs.
    new_repository = path / "fresh"
    git_store.create_bare(new_repository, object_hash, storage)
    (new_repository / "config").replace(path / "config")
    if storage == git_store.REFTABLE:
        # create_bare() makes no reftable.
        remove_path(new_repository)
        _add_reftable(path, object_hash, head)
    else:
        (path / "HEAD").write_bytes(os.fsencode(head))
        (new_repository / "refs").replace(path / "refs")
        remove_path(new_repository)


def _add_reftable(path: Path, object_hash: str, head: str) -> None:
    """Move an empty reftable into the repository at `path`, and set its HEAD to the content `head`."""
    # Only git itself makes the files of a reftable. The configuration of git's repository is not moved,
    # because it has other settings than create_bare() writes.
    made_by_git = path / "fresh"
    init_reftable(made_by_git, object_hash, git_of(path))
    (made_by_git / "reftable").replace(path / "reftable")
    # The real HEAD and refs are in the reftable. Without these two placeholders, git finds no repository.
    (made_by_git / "HEAD").replace(path / "HEAD")
    (made_by_git / "refs").replace(path / "refs")
    remove_path(made_by_git)
    if head.startswith("ref:"):
        run_git(path, "symbolic-ref", "HEAD", head.removeprefix("ref:").strip())
    else:
        # git refuses a symbolic ref to a commit.
        run_git(path, "update-ref", "--no-deref", "HEAD", head.strip())
