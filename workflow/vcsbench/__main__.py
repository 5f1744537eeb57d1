"""By hand: `./vcsbench plan` says what a run will take and do, `doctor` what this machine can
measure; `show CELL` prints what a cell does, `run CELL` does it, `clean` removes what vcsbench made."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from vcsbench.config.configuration import merge
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.foresee.doctor import doctor
from vcsbench.foresee.outlook import outlook
from vcsbench.plan.fresh import recall
from vcsbench.run import byhand
from vcsbench.run.house import TREE, House
from vcsbench.run.orphans import end_when_told

ROOT = Path(__file__).resolve().parent.parent.parent
ACTIONS = ("plan", "doctor", "show", "run", "clean")
FAILED = 1
# Of `doctor`, which says by 1 that something lacks.
MISCONFIGURED = 2


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.tree:
            os.environ[TREE] = options.tree
        house = _house(options.configfile, options.repository, options.study)
        if options.action in ("plan", "doctor"):
            return _foresee(options.action, house)
        if options.action == "clean":
            print("\n".join(byhand.clean(house)))
            return 0
        act = {"show": byhand.show, "run": byhand.run}[options.action]
        print(act(house, *byhand.find(house.plan, options.cell), options.round))
    except UserError as error:
        print(error, file=sys.stderr)
        return MISCONFIGURED if options.action == "doctor" else FAILED
    except KeyboardInterrupt:
        return 130
    return 0


def _foresee(action: str, house: House) -> int:
    """Plan, or look after the machine; returns the exit code."""
    end_when_told()
    os.umask(0o022)  # the servers run as another user
    recall(house.config.root)
    if action == "doctor":
        return doctor(house.plan, house.shelf, _say, _tell)
    for line in outlook(house.plan, house.shelf, _say):
        _tell(line)
    return 0


def _tell(text: str) -> None:
    print(text, flush=True)


def _say(text: str) -> None:
    print(f"vcsbench: {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vcsbench", description=__doc__)
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument(
        "cell",
        nargs="?",
        default="",
        help="a cell of results/grid/<study>.csv, its study in front if there are several",
    )
    parser.add_argument(
        "--round", type=int, default=1, help="the round, and so the copy (default: 1)"
    )
    parser.add_argument(
        "--configfile", action="append", default=[], help="as Snakemake's --configfile"
    )
    parser.add_argument(
        "--repository", help="a repository of your own, as in `make report REPO=...`"
    )
    parser.add_argument(
        "--tree",
        help="the folder of that repository that is exported, as in `make report TREE=...`",
    )
    parser.add_argument("--study", help="what to run, as in `make report STUDY=...`")
    return parser


def _house(files: list[str], repository: str | None, study: str | None) -> House:
    paths = [ROOT / "config" / "config.yaml", *(Path(file).absolute() for file in files)]
    config: dict[str, Any] = {}
    for path in paths:
        config = merge(config, read_yaml(path))
    if repository:
        config["repository"] = os.path.abspath(repository)
    if study:
        config["studies"] = study.replace(",", " ").split()
    os.chdir(ROOT)  # where a cell's files are
    return House(config, ROOT, paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
