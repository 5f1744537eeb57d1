"""Record where a report comes from: the version, the commit, the command and the configuration."""

import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vcsbench import __version__, processes
from vcsbench.errors import UserError, without_password
from vcsbench.external import hide_password, read_bytes
from vcsbench.files import write_bytes

COMMAND, TYPED = ".vcsbench/command", "VCSBENCH_COMMAND"
# Linux limits an argument to 128 KiB, and all of them to a quarter of the stack.
COMMAND_BYTES = 8 << 20
PARTS = ("Snakefile", "workflow", "config", "profiles", "envs")


def store_command(root: Path, arguments: Sequence[str]) -> None:
    command = os.environ.get(TYPED) or shlex.join(["snakemake", *arguments])
    command = without_password(command)
    with suppress(OSError):
        (root / COMMAND).parent.mkdir(exist_ok=True)
        write_bytes(root / COMMAND, command.encode(errors="replace"))


def provenance(root: Path, config: Mapping[str, object]) -> dict[str, object]:
    """Return the provenance of a report; `commit` and `command` are "" if unknown.

    `changed` are the files that differ from the commit. `config` is merged, without credentials in URLs.
    """
    head = _git(root, "rev-parse", "--show-toplevel", "HEAD").splitlines()
    is_tree = len(head) == 2 and Path(head[0]).resolve() == root.resolve()
    status = ("status", "--porcelain", "-z", "--no-renames", "-uall", "--", *PARTS)
    listed = _git(root, *status) if is_tree else ""
    command = ""
    with suppress(OSError, UserError):
        command = read_bytes(root / COMMAND, COMMAND_BYTES).decode(errors="replace")
    return {
        "vcsbench": __version__,
        "commit": head[1] if is_tree else "",
        "changed": sorted(entry[3:] for entry in listed.split("\0") if entry),
        "command": without_password(command),
        "config_digest": config_digest(config),
        "config": _without_passwords(config),
    }


def config_digest(config: Mapping[str, object]) -> str:
    """Return the digest of a merged configuration. The order of its keys does not matter."""
    ordered = json.dumps(_without_passwords(config), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(ordered.encode()).hexdigest()


def _without_passwords(config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration as plain data, without credentials in URLs."""

    def clean(value: object) -> object:
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [clean(inner) for inner in value]
        if isinstance(value, str):
            return without_password(hide_password(value) if "://" in value else value)
        return value

    plain = json.loads(json.dumps(config, ensure_ascii=False, default=str))
    return {key: clean(value) for key, value in plain.items()}


def _git(root: Path, *arguments: str) -> str:
    # Root may measure in the checkout of another user.
    command = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(root), *arguments]
    done = processes.run_program(command, limit_s=60, may_fail=True)
    return done.output if done.code == 0 else ""
