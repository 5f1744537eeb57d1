"""Programs that leave a file if git runs them, and all configuration keys that may name one."""

import re
import shutil
import subprocess

from git_histories import run
from project import write_program

HOOKS = (
    "post-checkout", "post-merge", "post-rewrite", "post-index-change", "pre-auto-gc", "pre-commit",
    "pre-receive", "update", "proc-receive", "reference-transaction", "fsmonitor-watchman",
)  # fmt: skip
# Keys of `git gc` with numbers, dates and truth values. gc.recentObjectsHook is none of them.
GC_KEYS = (
    "aggressiveDepth", "aggressiveWindow", "auto", "autoDetach", "autoPackLimit", "bigPackThreshold",
    "cruftPacks", "logExpiry", "maxCruftSize", "packRefs", "pruneExpire", "reflogExpire",
    "reflogExpireUnreachable", "rerereResolved", "rerereUnresolved", "worktreePruneExpire",
    "writeCommitGraph", "canary.reflogExpire", "canary.reflogExpireUnreachable",
)  # fmt: skip
# Keys of the format of a repository. They name no program, and git refuses wrong values.
FORMAT_KEYS = re.compile(
    r"^(extensions|core\.(repositoryformatversion|bare)|index|pack|feature)\b"
    rf"|^gc\.({'|'.join(map(re.escape, GC_KEYS))})$",
    re.I,
)
# An older git does not list the last one.
PROGRAM_KEYS = (
    "core.fsmonitor",
    "filter.canary.smudge",
    "filter.canary.process",
    "gc.recentObjectsHook",
)


def canary(folder):
    """Return a program that leaves the file CANARY next to it."""
    return write_program(
        folder / "canary", f"#!/bin/sh\necho \"$0 $*\" >> '{folder}/CANARY'\ncat\n"
    )


def program_keys():
    """Return every configuration key of the installed git, with names in place of the placeholders."""
    words = ("git", "help", "--config-for-completion")
    keys = subprocess.run(words, capture_output=True, text=True).stdout.split()
    known = run("git", "help", "--config").decode().split()
    keys += [word for word in known if "." in word and "'" not in word]
    keys = [re.sub(r"<[^>]*>|\*", "canary", key) for key in keys]
    keys += ["diff.canary.textconv", "diff.canary.command", *PROGRAM_KEYS]
    pattern = re.compile(r"[A-Za-z0-9-]+(\.[\w.-]+)*\.[A-Za-z][A-Za-z0-9-]*")
    return sorted({key for key in keys if pattern.fullmatch(key)})


def set_program_everywhere(work, program, hooks):
    """Name a program in each configuration key of a repository that may have one, and as its hooks.

    `work` is a bare repository, or the work tree of another one.
    """
    folder = work / ".git" if (work / ".git").exists() else work
    config = []
    for key in program_keys():
        section, _, name = key.rpartition(".")
        first, _, rest = section.partition(".")
        if not FORMAT_KEYS.match(key) and not name.lower().endswith("promisor"):
            head = f'[{first} "{rest}"]' if rest else f"[{first}]"
            config.append(f"{head}\n\t{name} = {program}\n")
    with (folder / "config").open("a") as file:
        file.write("".join(config))
    for hook in hooks:
        shutil.copy(program, folder / "hooks" / hook)
