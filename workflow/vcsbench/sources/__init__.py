"""Sources of dump streams: where a repository's history comes from."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from vcsbench.config.configuration import EMPTY
from vcsbench.errors import UserError
from vcsbench.external import PATH_ERRORS, local_path, printable
from vcsbench.sources import dump_source, git_layout, svn_files
from vcsbench.sources.base import (
    Definition,
    Facts,
    Options,
    SizeEstimate,
    Source,
    describe_unreachable,
    is_server_url,
)
from vcsbench.sources.dump_source import DumpSource
from vcsbench.sources.generated import EmptySource, GeneratedSource
from vcsbench.sources.generated_profiles import PROFILES
from vcsbench.sources.git_copy_source import AS_IS_HISTORY, GitCopySource
from vcsbench.sources.git_repository import open_repository
from vcsbench.sources.git_source import FIRST_PARENT, GitSource
from vcsbench.sources.git_tree import write_tree
from vcsbench.sources.privacy import is_private
from vcsbench.sources.svn_source import SvnSource
from vcsbench.sources.svn_tree import summarize_tree
from vcsbench.sources.svn_url_source import SvnUrlSource, export_head
from vcsbench.sources.tree_source import DirectorySource, copy_directory

SOURCE_KINDS: dict[str, Callable[[str, Definition, str], Source]] = {
    "generated": GeneratedSource,
    "git": GitSource,
    "svn": SvnSource,
    "dump": DumpSource,
    "directory": DirectorySource,
    EMPTY: EmptySource,
}
# Keys of a definition that concern the copies of a repository, and not its source.
COPY_KEYS = ("packing", "studies")
# The kinds of sources whose exported folder can be chosen.
KINDS_WITH_TREE = (SvnSource.kind, DumpSource.kind)

__all__ = ["SOURCE_KINDS", "Facts", "SizeEstimate", "Source", "detect", "is_private", "open_source"]


def open_source(
    name: str,
    definition: Definition,
    *,
    where: str = "config/config.yaml",
    root: str | Path = ".",
) -> Source:
    """Return the source of a repository's definition, such as {"source": "git", "path": "/srv/x"}.

    Errors name the repository (`name`) and the file (`where`). `root` is the checkout of vcsbench, which owns
    the private folder of a git source (run_folder). Raise UserError for a wrong definition. Source.check()
    checks the repository itself later.
    """
    # A source refuses keys that it does not define.
    definition = {key: value for key, value in definition.items() if key not in COPY_KEYS}
    kind = definition["source"]
    if kind == SvnSource.kind and "url" in definition:
        return SvnUrlSource(name, definition, where)
    # A git repository is converted to a dump stream, or copied as it is (`history: as-is`).
    if kind == GitSource.kind:
        is_copy = definition.get("history") == AS_IS_HISTORY
        git_class = GitCopySource if is_copy else GitSource
        return git_class(name, definition, where, root=root)
    source = SOURCE_KINDS[kind](name, definition, where)
    if kind == GeneratedSource.kind:
        # The source has checked by now that its profile exists.
        _check_scale(name, definition, where)
    return source


def _check_scale(name: str, definition: Definition, where: str) -> None:
    """Raise UserError for a scale of a generated history at which its first import would have no file.

    GeneratedSource cannot check this: an edit of its code changes the identity of all generated histories.
    """
    profile = PROFILES[definition["profile"]]
    # `imported` is the part of the tree that the first import adds, such as 0.99. If it is 0, the scale
    # shortens only the history, and not the tree.
    if not profile.imported:
        return
    scale = definition.get("scale", 1.0)
    imported_files = round(profile.tree_files * scale) * profile.imported
    if imported_files >= 1:
        return
    # Options are needed for their error only, which names the file and the key. So all keys are allowed.
    options = Options(name, definition, where, *definition)
    # The proposed scale gives a tree of 2 files. With 1 file, 1 x 0.99 would be below 1 again.
    raise options.error(
        "scale",
        f"{scale:g} leaves none of the {profile.tree_files:,} files of {profile.name}. "
        f"Use {2 / profile.tree_files:.5f} or more.",
    )


def detect(path: str) -> dict[str, str]:
    """Detect the kind of repository at a user's path, such as {"source": "svn", "path": "/srv/x"}.

    The result is an entry of `repositories` in the configuration. Its source is `svn`, `dump`, or `git`,
    which also gets "history": "first-parent". Raise UserError for other paths, and for URLs of servers.
    """
    if is_server_url(path):
        # The error does not show the URL, which may contain a password.
        raise UserError(
            "REPO=: this is a URL. Give one of Subversion under `repositories` in the configuration, "
            "with `source: svn` and `url`. Clone a git repository, and give the clone."
        )
    if not path:
        raise UserError("REPO=: the path is empty. Give the path of a repository.")
    printable_path = printable(path)
    # Each access to the disk can raise one of PATH_ERRORS, for example without permission to read a folder.
    try:
        candidate = local_path(path)
        if not candidate.exists():
            raise UserError(f"{printable_path}: no such file or folder. Check the path.")
        # Links are resolved: a link, and the folder that it leads to, give the same definition.
        absolute = str(candidate.resolve())
        if svn_files.is_svn_repository(candidate):
            return {"source": SvnSource.kind, "path": absolute}
        if git_layout.find_layout(candidate) is not None:
            return {"source": GitSource.kind, "path": absolute, "history": FIRST_PARENT}
        if candidate.is_file() and dump_source.is_dump(candidate):
            return {"source": DumpSource.kind, "path": absolute}
        reason = _why_unknown(candidate)
    except PATH_ERRORS as error:
        raise UserError(describe_unreachable(path, error)) from error
    raise UserError(f"{printable_path}: {reason}")


def _why_unknown(path: Path) -> str:
    """Return why an existing path is no repository, as the end of an error's sentence, with a remedy.

    Such as `lies in the Subversion repository /srv/x. Give that.`
    """
    unknown = "is neither a Subversion repository, nor a git repository, nor a dump file. Give one."
    if path.is_file():
        return dump_source.why_no_dump(path) or unknown
    if not path.is_dir():
        return "is neither a file nor a folder. Give the path of a repository."
    # Of several repositories around the path, the innermost one comes first, and is named.
    folders_above = path.resolve().parents
    if any((folder / ".svn").is_dir() for folder in (path, *folders_above)):
        return (
            "is a working copy of Subversion, not a repository. Give its repository: "
            "`svn info --show-item repos-root-url` in it prints the URL."
        )
    for folder in folders_above:
        if svn_files.is_svn_repository(folder):
            return f"lies in the Subversion repository {folder}. Give that."
        # `.git` is a folder, or a file in a linked work tree.
        if os.path.lexists(folder / ".git"):
            return f"lies in the git work tree {printable(str(folder))}. Give that."
    return unknown


def own_repository(
    path: str, configured: Mapping[str, object], tree: str | None = None, keeps_git: bool = False
) -> dict[str, dict[str, str]]:
    """Return the repository at a path as the only entry of `repositories`, named after its folder.

    /srv/project gives {"project": {"source": "svn", "path": "/srv/project"}}. The names of the entries in
    `configured` are taken. `tree` is the folder in the repository that commands export. With `keeps_git`, a
    git repository is copied as it is, and another kind raises UserError. Also raise UserError without a
    repository at the path, or if its source has no key `tree`.
    """
    definition = detect(path)
    kind = definition["source"]
    if keeps_git:
        if kind != GitSource.kind:
            raise UserError(
                f"{printable(path)}: is no git repository, which the study needs. Give one, or name another "
                "study (STUDY=own-repository)."
            )
        definition["history"] = AS_IS_HISTORY
    if tree is not None:
        if kind not in KINDS_WITH_TREE:
            raise UserError(
                f"TREE={printable(tree)}: the source {kind} has no `tree`. Leave it out."
            )
        definition["tree"] = tree
    # /srv/x.git is named x.
    stem = Path(definition["path"]).name.removesuffix(".git")
    if not stem:
        # Nothing is left of the name of /srv/project/.git, so the folder above gives the name.
        stem = Path(definition["path"]).resolve().parent.name
    # The name becomes a part of names of files and cells. A dot in front would hide the files.
    name = re.sub("[^A-Za-z0-9._-]", "-", stem).lstrip("._-") or "repository"
    # With a name of the configuration, results would replace those of that repository. EMPTY is reserved.
    while name in (*configured, EMPTY):
        name += "-own"
    return {name: definition}


def _count_odd_paths(repository: str, tree: str, revision: str) -> list[str]:
    """Return the numbers of paths in a tree that no disk can hold, and that no working copy can hold."""
    odd_paths = summarize_tree(Path(repository), tree, int(revision)).odd_paths
    return [str(odd_paths.impossible), str(odd_paths.reserved)]


def _write_git_tree(path: str, folder: str, commit: str) -> list[str]:
    # The working directory of the process is the checkout, which owns git's private folder.
    with open_repository(Path(path), root=".") as git:
        return write_tree(git, commit, Path(folder))


def _copy_unchanged(path: str, folder: str, identity: str) -> list[str]:
    """Copy a directory. Raise UserError if its identity has changed; no check if `identity` is empty."""
    notes = copy_directory(Path(path), Path(folder))
    # The directory may change while it is copied, so the check comes after the copy.
    if identity:
        definition = {"source": DirectorySource.kind, "path": path}
        open_source(Path(path).name, definition).check_unchanged(identity)
    return notes


# The tasks of main(). "odd paths" returns two numbers. The other tasks write the youngest tree of a source
# (at a path or URL) to a new folder, and return notes on what was changed or left out.
TASKS: dict[str, Callable[..., list[str]]] = {
    "odd paths": _count_odd_paths,
    SvnSource.kind: export_head,
    GitSource.kind: _write_git_tree,
    DirectorySource.kind: _copy_unchanged,
}


def main(task: str, *arguments: str) -> None:
    """Perform one of TASKS in a process of its own (subjects.run_sources), and print the lines it returns."""
    try:
        for line in TASKS[task](*arguments):
            print(line)
    except (UserError, OSError) as error:
        sys.exit(str(error))
