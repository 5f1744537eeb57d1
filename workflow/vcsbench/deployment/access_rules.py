"""Write access rules of Subversion (authz) that let the client read and commit everything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from vcsbench import processes

# A path that no repository has, and that nobody may read. Without such a path, the smallest right of all
# rules is enough for each path, and Subversion skips the rules.
FORBIDDEN = "vcsbench-forbidden"
# Paths that no repository has, next to its own paths: Subversion reads their rules, too.
GENERATED = "vcsbench-private"
GROUPS, USERS = 10, 10
# The most lines of a tree that are read. A larger tree has folders enough in its first part.
MOST_LINES = 200_000
# A section of the file cannot have these names: a bracket ends it, and a colon ends a repository's name.
_UNUSABLE = re.compile(r"[\[\]:\x00-\x1f\x7f]|(^|/)\s|\s(/|$)")


def write_rules(folders: Sequence[str], count: int) -> str:
    """Return the text of a file of access rules (authz) for a server of Subversion, for `count` paths.

    The file is like a company's, and costs the server time for each path that it checks. But it denies
    the client nothing that exists, so the client gets the same data as without rules. The paths (at least 2)
    are, in this order:

    - the root, which all users may read and write,
    - /vcsbench-forbidden, which does not exist, and which nobody may read,
    - some of the repository's `folders`, such as /trunk/lib: at most half of the remaining paths,
    - paths below these folders that do not exist, which only a group may read and write.
    """
    # The groups and their users, who do not exist.
    lines = ["[groups]"]
    for group in range(GROUPS):
        users = [f"user-{group}-{user}" for user in range(USERS)]
        lines.append(f"group-{group} = {', '.join(users)}")
    # A path in brackets begins the rules of this path. `*` stands for all users, `rw` for reading and
    # writing, and no text for no access.
    lines += ["", "[/]", "* = rw"]
    lines += ["", f"[/{FORBIDDEN}]", "* ="]
    # Two of the `count` paths have their rules now.
    remaining = count - 2
    existing_folders = _choose_evenly(folders, remaining // 2)
    for number, folder in enumerate(existing_folders):
        # The groups take turns. The client's user is in none of them, so `*` gives it all rights here.
        lines += ["", f"[{folder}]", f"@group-{number % GROUPS} = r", "* = rw"]
    # The other paths are spread over these folders. Without folders, they are right below the root ("").
    parents = existing_folders or [""]
    for number in range(remaining - len(existing_folders)):
        path = f"{parents[number % len(parents)]}/{GENERATED}-{number}"
        lines += ["", f"[{path}]", f"@group-{number % GROUPS} = rw", "* ="]
    return "\n".join(lines) + "\n"


def _choose_evenly(folders: Sequence[str], most: int) -> list[str]:
    """Return all folders, or `most` of them at equal distances in the list if there are more."""
    if len(folders) <= most:
        return list(folders)
    return [folders[index * len(folders) // most] for index in range(most)]


def list_tree_folders(
    svnlook: str, repository: Path, tree: str, environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return the folders of a repository for which access rules can be written, such as "/trunk/lib".

    The folders are `tree`, such as "trunk", and those below it; all folders for "". Of a large tree, only the
    first MOST_LINES paths are read. Raise UserError if svnlook fails.
    """
    argv = [svnlook, "tree", "--full-paths", str(repository)]
    if tree:
        argv.append(tree)
    failure = f"{repository}: svnlook tree failed"
    with processes.Program(argv, failure, env=environment) as program:
        lines = list(islice(program.stdout, MOST_LINES))
        # svnlook is still printing the rest of a larger tree. It ends because leaving the block closes its
        # output, and this is no error. For other trees, finish() raises UserError if svnlook has failed.
        if len(lines) < MOST_LINES:
            program.finish()
    folders = []
    for line in lines:
        # Each byte that is not UTF-8 becomes the character U+FFFD.
        path = line.decode(errors="replace").removesuffix("\n")
        # Only the line of a folder ends in a slash: `trunk/lib/`. The line of the root is only a slash.
        is_folder = path.endswith("/")
        name = path.strip("/")
        if is_folder and name and _can_have_rules(name):
            folders.append(f"/{name}")
    return folders


def _can_have_rules(name: str) -> bool:
    """Return True if a path can be written in brackets in a file of access rules."""
    # U+FFFD stands for bytes that are not UTF-8, and the file has to be UTF-8.
    return "\ufffd" not in name and not _UNUSABLE.search(name)
