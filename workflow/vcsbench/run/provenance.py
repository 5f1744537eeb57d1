"""Record where a report comes from: the version, the commit, the command and the configuration."""

import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vcsbench import __version__, processes
from vcsbench.errors import UserError
from vcsbench.external import read_bytes
from vcsbench.files import write_bytes

COMMAND = ".vcsbench/command"
# The variable with the command line that the user typed: the tool vcsbench adds options for Snakemake.
TYPED = "VCSBENCH_COMMAND"
# Linux limits an argument to 128 KiB, and all of them to a quarter of the stack.
COMMAND_BYTES = 8 << 20
# The parts of the checkout that change results.
PARTS = ("Snakefile", "workflow", "config", "profiles", "envs")


def store_command(root: Path, arguments: Sequence[str]) -> None:
    """Store the command of this run for its reports. `arguments` are Snakemake's arguments."""
    command = os.environ.get(TYPED) or shlex.join(["snakemake", *arguments])
    with suppress(OSError):
        (root / COMMAND).parent.mkdir(exist_ok=True)
        write_bytes(root / COMMAND, command.encode(errors="replace"))


def provenance(root: Path, config: Mapping[str, object]) -> dict[str, object]:
    """Return where a report comes from: version, commit, changed files, command and configuration `config`.

    `changed` lists the files of PARTS that differ from the commit, such as ["config/config.yaml"]. `command`
    is the command line of the last run that measured; "" if no run has measured here.
    """
    commit = ""
    changed: list[str] = []
    # A copy of the checkout without .git may lie in another repository, whose commit does not count.
    lines = _git(root, "rev-parse", "--show-toplevel", "HEAD").splitlines()
    if len(lines) == 2 and Path(lines[0]).resolve() == root.resolve():
        commit = lines[1]
        status = _git(root, "status", "--porcelain", "-z", "--no-renames", "-uall", "--", *PARTS)
        # An entry is, for example, " M config/config.yaml".
        changed = sorted(entry[3:] for entry in status.split("\0") if entry)
    command = ""
    with suppress(OSError, UserError):
        command = read_bytes(root / COMMAND, COMMAND_BYTES).decode(errors="replace")
    return {
        "vcsbench": __version__,
        "commit": commit,
        "changed": changed,
        "command": command,
        "config_digest": config_digest(config),
        "config": plain_config(config),
    }


def config_digest(config: Mapping[str, object]) -> str:
    """Return the digest of a merged configuration. The order of its keys does not matter."""
    ordered = json.dumps(plain_config(config), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(ordered.encode()).hexdigest()


def plain_config(config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration as data of JSON."""
    plain: dict[str, object] = json.loads(json.dumps(config, ensure_ascii=False, default=str))
    return plain


def _git(root: Path, *arguments: str) -> str:
    """Return the output of git in the checkout; "" if git fails."""
    # Root may measure in the checkout of another user, which git would refuse without safe.directory.
    command = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(root), *arguments]
    done = processes.run_program(command, limit_s=60, may_fail=True)
    return done.output if done.code == 0 else ""
