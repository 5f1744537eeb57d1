"""Run git on a user's repository, through a private git folder with its refs and objects.

No configuration, hook, filter, attribute, replacement, graft or variable of the user takes part. git itself
would follow its configuration, run its programs and wait for its pipes.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from vcsbench import processes
from vcsbench.environment import program_environment
from vcsbench.errors import UserError
from vcsbench.external import check_size, one_line, printable
from vcsbench.processes import Program
from vcsbench.sources.git_layout import (
    GitLayout,
    find_layout,
    find_object_folders,
    read_optional,
    read_ref,
)
from vcsbench.storages.workdir import run_folder

CONFIG_BYTES = 1 << 24
LIST_BYTES = 1 << 29
# git needs about 300 bytes for each file of a commit. A tree that holds itself many times has billions.
MEMORY_BYTES = 4 << 30

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1",
    # With these two, git fetches nothing into a partial clone. git before 2.44 has only the second.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# git 2.43 reads the attributes of a bare repository from the tree of HEAD, unless it gets another one. The
# name of the empty tree is its digest, so it depends on the repository's kind of digests.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
EMPTY_TREE_SHA256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
# commit-graph and multi-pack-index repeat data of the objects, perhaps wrongly.
CONFIGURATION = """\
[core]
	repositoryformatversion = {version}
	bare = true
	attributesFile = /dev/null
	hooksPath = /dev/null
	fsmonitor = false
	commitGraph = false
	multiPackIndex = false
	useReplaceRefs = false
[attr]
	tree = {empty}
[protocol]
	allow = never
[gc]
	auto = 0
[advice]
	graftFileDeprecated = false
[extensions]
"""
FALSE = ("false", "no", "off", "0")
_EXTENSION = re.compile(r"[a-z][a-z0-9-]*")
CLONE_AGAIN = "try `git fsck`, or clone it again"
USE_NEWER = "use a newer git, or clone it again"


@contextmanager
def open_repository(path: Path, root: str | Path) -> Iterator[Git]:
    """Yield git on the repository at a path: bare, a work tree's top, or a linked work tree.

    `root` is vcsbench's checkout, which owns git's private folder (run_folder). Raise UserError with git's
    own reason if git cannot read the repository.
    """
    layout = find_layout(path)
    if layout is None:
        raise UserError(f"{one_line(path)}: is not a git repository. Give one.")
    with run_folder(root) as private:
        yield Git(one_line(path), layout, private)


class Git:
    """git on a private folder with the refs and the objects of a user's repository.

    - `where`: the path of the user's repository, safe to print.
    - `layout`: its folders.
    - `head`: the content of HEAD, such as `ref: refs/heads/main`, or the name of a commit.
    - `shallow`: the file with the commits at which the history of a shallow clone begins; b"" for others.
    """

    def __init__(self, where: str, layout: GitLayout, private: Path) -> None:
        """Fill the empty folder `private`, on which git runs: with HEAD, a configuration and links to refs.

        In the user's own folder, git would follow the configuration there, which could make it run a program.
        So git reads only objects and refs from the user's folder. Raise UserError if git cannot read the
        repository, for a partial clone, or for refs that are not kept in files.
        """
        self.where = where
        self.layout = layout
        self._private = private
        # In /srv/link/../x, the folder above a link is that of its target. os.path.abspath() would return
        # another folder than the one that find_layout() has checked.
        common = Path(os.path.realpath(layout.common))
        # A repository may borrow objects from others (`git clone --shared`). The first folder of objects is
        # its own. git finds the borrowed ones from there, and this call has checked them.
        self._objects = find_object_folders(common)[0]
        self.head = read_ref(layout.folder / "HEAD")
        # git reads all of this file, which could take minutes. With other files that are too large, git soon
        # fails by itself (MEMORY_BYTES).
        check_size(common / "packed-refs", LIST_BYTES)
        # The refs may be many files, so they are links to the user's.
        (private / "HEAD").write_bytes(self.head + b"\n")
        (private / "refs").symlink_to(common / "refs")
        (private / "packed-refs").symlink_to(common / "packed-refs")
        self.shallow = read_optional(common / "shallow", LIST_BYTES)
        if self.shallow:
            (private / "shallow").write_bytes(self.shallow)
        # The new configuration has only two things of the user's, the format version and the extensions. git
        # needs them to read the objects.
        settings = self._read_settings(common / "config")
        self._check_settings(settings)
        configuration = self._make_configuration(settings)
        (private / "config").write_bytes(os.fsencode(configuration))
        # git fails here for an unknown format or extension, and for a HEAD without a ref or commit.
        self.output("rev-parse", "--git-dir", remedy=USE_NEWER)

    def _read_settings(self, config: Path) -> dict[str, str]:
        """Return the settings in the user's configuration, such as {"core.bare": "true"}."""
        if not read_optional(config, CONFIG_BYTES):
            return {}
        # With --file, git follows no includes. With -z, a setting is a key, a line end and a value.
        listed = self.output("config", "--file", str(config), "--list", "-z", remedy="correct it")
        settings = {}
        for setting in os.fsdecode(listed).split("\0"):
            key, _, value = setting.partition("\n")
            if key:
                settings[key] = value
        return settings

    def _check_settings(self, settings: Mapping[str, str]) -> None:
        """Raise UserError for a partial clone, and for refs that are not kept in files."""
        is_partial = "extensions.partialclone" in settings
        for key, value in settings.items():
            # Such as remote.origin.promisor: that remote has the objects that are missing here.
            if key.endswith(".promisor") and value.lower() not in FALSE:
                is_partial = True
        if is_partial:
            raise UserError(
                f"{self.where} is a partial clone, which lacks files. Clone it again without --filter."
            )
        # The private folder has links to `refs` and `packed-refs`. Refs that are kept elsewhere are not seen.
        storage = settings.get("extensions.refstorage", "files")
        if storage != "files":
            raise UserError(
                f"{self.where}: its refstorage is {printable(storage)}, not files. "
                "Run `git refs migrate --ref-format=files` in it, or clone it with --ref-format=files."
            )

    def _make_configuration(self, settings: Mapping[str, str]) -> str:
        """Return the text of the private folder's configuration: CONFIGURATION and the extensions.

        git needs the user's format version and extensions to read the objects. Raise UserError for an
        extension whose name git cannot have.
        """
        has_sha256 = settings.get("extensions.objectformat") == "sha256"
        configuration = CONFIGURATION.format(
            version=_quote_value(settings.get("core.repositoryformatversion", "0")),
            empty=EMPTY_TREE_SHA256 if has_sha256 else EMPTY_TREE,
        )
        # CONFIGURATION ends with the line `[extensions]`, which begins this section.
        for key, value in settings.items():
            section, _, name = key.partition(".")
            if section != "extensions":
                continue
            # `[extensions "x"] y` has the name `x.y` here, and x may contain line ends. In our file, a line
            # end could begin another section, such as one that includes a file of the user's.
            if not _EXTENSION.fullmatch(name):
                raise UserError(
                    f"{self.where}: git has no extension {printable(name[:80])!r}. "
                    "Remove its section from the configuration of the repository."
                )
            configuration += f"\t{name} = {_quote_value(value)}\n"
        return configuration

    def output(self, *arguments: str, remedy: str = CLONE_AGAIN) -> bytes:
        """Return the output of a command of git. Raise UserError with git's reason and a remedy."""
        with self.start(*arguments, remedy=remedy) as program:
            return program.read_all()

    def start(
        self,
        *arguments: str,
        stdin: int | IO[Any] = processes.DEVNULL,
        remedy: str = CLONE_AGAIN,
        limit_s: float | None = None,
    ) -> Program:
        """Start a command of git on the private folder, such as start("log", "--reverse"), and return it.

        git gets at most MEMORY_BYTES of memory. `limit_s` is the longest time without output. If git fails,
        the error names the user's repository, the command and the `remedy`.
        """
        failure = f"{self.where}: git {arguments[0]} failed ({remedy})"
        # With -C, git calls the private folder `.`, so its messages do not show our path.
        argv = ["git", "-C", str(self._private), "--git-dir=.", *arguments]
        variables = {
            **ENVIRONMENT,
            "HOME": str(self._private),
            "XDG_CONFIG_HOME": str(self._private),
            "GIT_OBJECT_DIRECTORY": str(self._objects),
        }
        program = Program(argv, failure, program_environment(variables), stdin, limit_s)
        # prlimit() fails if git has ended already, or has inherited a lower limit from this process.
        with suppress(OSError, ValueError):
            limits = (MEMORY_BYTES, MEMORY_BYTES)
            resource.prlimit(program.process.pid, resource.RLIMIT_DATA, limits)
        return program

    def damaged_error(self, name: bytes, fault: str) -> UserError:
        return UserError(
            f"{self.where}: the object {name.decode()} is damaged: {fault}. `git fsck` lists such objects."
        )

    def missing_error(self, name: bytes) -> UserError:
        return UserError(
            f"{self.where}: the object {name.decode()} is missing: the clone is partial or damaged. "
            "Clone it again, without --filter."
        )


def _quote_value(value: str) -> str:
    """Return a value as git writes it to a configuration."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
