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
    """Return the text of Subversion's access rules (an authz file) for `count` paths, at least 2.

    The rules cost the server time, and deny the client nothing that exists. The paths are, in this order:

    - the root, which all users may read and write,
    - /vcsbench-forbidden, which does not exist, and which nobody may read,
    - some of the existing `folders`, such as /trunk/lib: at most half of the remaining paths,
    - paths below these folders that do not exist, which only a group may read and write.
    """
    lines = ["[groups]"]
    for group in range(GROUPS):
        users = [f"user-{group}-{user}" for user in range(USERS)]
        lines.append(f"group-{group} = {', '.join(users)}")
    # A path in brackets begins its rules. `*` stands for all users, and an empty right for no access.
    lines += ["", "[/]", "* = rw", "", f"[/{FORBIDDEN}]", "* ="]
    # Two paths have their rules now.
    remaining = count - 2
    half = remaining // 2
    existing_folders = list(folders)
    if len(folders) > half:
        # There are too many folders, so folders at equal distances in the list are chosen.
        existing_folders = [folders[index * len(folders) // half] for index in range(half)]
    # The client is in no group, so `*` gives it all rights in these folders.
    for number, folder in enumerate(existing_folders):
        lines += ["", f"[{folder}]", f"@group-{number % GROUPS} = r", "* = rw"]
    # Without existing folders, the paths that do not exist are right below the root.
    parents = existing_folders or [""]
    for number in range(remaining - len(existing_folders)):
        path = f"{parents[number % len(parents)]}/{GENERATED}-{number}"
        lines += ["", f"[{path}]", f"@group-{number % GROUPS} = rw", "* ="]
    return "\n".join(lines) + "\n"


def list_tree_folders(
    svnlook: str, repository: Path, tree: str, environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return the folders of a tree of a repository that rules can name, such as `/trunk/lib`.

    `tree` is a path in the repository, "" for all of it. A large tree is read in part. `environment` is that
    of svnlook (default: that of all programs). Raise UserError if svnlook fails.
    """
    argv = [svnlook, "tree", "--full-paths", str(repository)]
    if tree:
        argv.append(tree)
    failure = f"{repository}: svnlook tree failed"
    with processes.Program(argv, failure, env=environment) as program:
        lines = list(islice(program.stdout, MOST_LINES))
        # In a larger tree, svnlook has not finished. Leaving the block closes its output, and svnlook ends.
        if len(lines) < MOST_LINES:
            program.finish()
    folders = []
    for line in lines:
        path = line.decode(errors="replace").removesuffix("\n")
        name = path.strip("/")
        # The line of a folder ends in a slash, such as `trunk/lib/`. The line of the root has no name.
        is_folder = path.endswith("/") and name != ""
        # A rule cannot name bytes that are not UTF-8, for which U+FFFD stands, nor a path that _UNUSABLE
        # matches, such as one with a bracket or a colon.
        if is_folder and "\ufffd" not in name and not _UNUSABLE.search(name):
            folders.append(f"/{name}")
    return folders
