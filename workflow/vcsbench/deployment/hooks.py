"""Define the hooks of the axis `hooks`, and install them in a private copy of a repository.

The hooks of a user's repository are never copied, and never run.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

# Subversion runs these hooks at each commit, and waits for both before the client gets its answer.
MOMENTS = ("pre-commit", "post-commit")


class HookScript(NamedTuple):
    """The hooks of a value of the axis: the program that runs them, its options, and their text.

    A hook gets the path of the repository as its first argument. The file {moment}.ran that it leaves there
    proves that it has run.
    """

    program: str
    options: str
    text: str


# None: no hooks.
HOOKS: dict[str, HookScript | None] = {
    "none": None,
    "shell": HookScript("sh", "", ': > "$1/{moment}.ran"\n'),
    # A run may commit several times, so the mark may exist already.
    "python": HookScript(
        "python3", " -I", 'import sys\n\nopen(sys.argv[1] + "/{moment}.ran", "w").close()\n'
    ),
}


def why_unknown_hooks(value: str) -> str:
    """Return why a value of the axis is invalid, in a clause; "" if it is valid."""
    return "" if value in HOOKS else f"is no value of it. Use {', '.join(HOOKS)}"


def hook_keys(value: str) -> dict[str, str]:
    """Return the keys of a recipe for a value of the axis; {} without hooks.

    Example: {"hooks": "python", "hook_program": "/usr/bin/python3.11"}. The name of the program's file mostly
    has its version. With another version, the hook takes another time.
    """
    script = HOOKS.get(value)
    if not script:
        return {}
    return {"hooks": value, "hook_program": _find_program(script)}


def why_no_hooks(value: str, storage: str) -> str:
    """Return why hooks cannot run in a repository on a storage, in a clause; "" if they can."""
    script = HOOKS.get(value)
    if not script:
        return ""
    if not _find_program(script):
        return f"{script.program} is not in {os.defpath}, where hooks find their programs"
    if os.path.isdir(storage) and os.statvfs(storage).f_flag & os.ST_NOEXEC:
        return f"{storage} is mounted with noexec, so no hook can run there"
    return ""


def install_hooks(repository: Path, value: str) -> None:
    """Replace the hooks of a repository, which is a private copy, by the hooks of a value of the axis."""
    folder = repository / "hooks"
    # Hooks that were copied with the repository must never run.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    script = HOOKS.get(value)
    if not script:
        return
    for moment in MOMENTS:
        # Subversion finds a hook by its name: it runs hooks/pre-commit before a commit.
        hook = folder / moment
        text = script.text.format(moment=moment)
        hook.write_text(f"#!{_find_program(script)}{script.options}\n{text}")
        hook.chmod(0o755)


def find_missing_marks(repository: Path, value: str) -> list[str]:
    """Return the hooks of a value that have left no mark in a repository, such as ["post-commit"]."""
    if not HOOKS.get(value):
        return []
    return [moment for moment in MOMENTS if not (repository / f"{moment}.ran").exists()]


def _find_program(script: HookScript) -> str:
    """Return the file of the program of a hook, without links; "" if it is missing."""
    # Subversion runs hooks in an empty environment, so the program is searched there. The Python of a virtual
    # environment may be in a folder that the servers' user cannot enter.
    path = shutil.which(script.program, path=os.defpath)
    return os.path.realpath(path) if path else ""
