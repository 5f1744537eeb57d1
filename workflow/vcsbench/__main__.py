"""vcsbench measures which repository format, server and configuration is faster, on this machine."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench.errors import UserError
from vcsbench.external import printable

if TYPE_CHECKING:
    from vcsbench.run.project import Project

ROOT = Path(__file__).resolve().parent.parent.parent
FAILED = 1
# `doctor` returns 1 where something is missing.
MISCONFIGURED = 2
MINUTES = re.compile(r"([1-9][0-9]*|0)?(\.[0-9]+)?")


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit code."""
    options, others = _parser().parse_known_args(arguments)
    if others and not options.forwards:
        print(
            f"vcsbench {options.action}: unknown arguments: {shlex.join(others)}", file=sys.stderr
        )
        return MISCONFIGURED
    options.others = [argument for argument in others if argument != "--"]
    os.environ["VCSBENCH_COMMAND"] = shlex.join(["vcsbench", *arguments])
    try:
        # Paths of the command line are relative to the user's folder, all others to the checkout.
        keys = configuration(options)
        options.configfiles = [os.path.abspath(file) for file in options.configfile]
        os.chdir(ROOT)
        act: Callable[[argparse.Namespace, dict[str, Any]], int] = options.act
        return act(options, keys)
    except UserError as error:
        print(printable(str(error)), file=sys.stderr)
        return MISCONFIGURED if options.action == "doctor" else FAILED
    except KeyboardInterrupt:
        return 130


def configuration(options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration keys that the flags set."""
    keys: dict[str, Any] = {}
    if options.repository:
        given = options.repository
        keys["repository"] = given if "://" in given else os.path.abspath(given)
    if options.tree:
        os.environ["VCSBENCH_TREE"] = options.tree
    if options.study:
        keys["studies"] = options.study.replace(",", " ").split()
    if minutes := getattr(options, "minutes", None):
        if not MINUTES.fullmatch(minutes) or not float(minutes) > 0:
            raise UserError(
                f"--minutes: {minutes!r} is no number of minutes above 0. Give one, such as --minutes=15."
            )
        # Also where a configuration file fixes the rounds.
        keys |= {"minutes": float(minutes), "rounds": None}
    if getattr(options, "report_only", False):
        keys["measure"] = "nothing"
    return keys


def run(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Measure, write the report and print its answers."""
    from vcsbench.run.workflow import run as run_workflow

    arguments = ["--cores", options.cores, *(["--dry-run"] * options.dry_run), *options.others]
    began = _now()
    status = run_workflow(ROOT, keys, options.configfiles, arguments)
    if not options.dry_run and status < 128:
        _print_report(status, began)
    return status


def check(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Measure, write the report, and fail unless all expectations hold."""
    from vcsbench.statistics.check import main as judge

    options.others = ["all", "results/check.csv", *options.others]
    if run(options, keys):
        print("Nothing was checked: the run failed.", file=sys.stderr)
        return FAILED
    return 0 if options.dry_run else judge(["results/check.csv"])


def published_tables(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Compute the tables of the published studies from their published numbers."""
    from vcsbench.run.workflow import run as run_workflow

    arguments = ["--cores", options.cores, *options.others, "published"]
    return run_workflow(ROOT, keys, options.configfiles, arguments)


def plan(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Print what a run does and how long it takes."""
    from vcsbench.foresee.outlook import outlook

    project = _calibrating(options, keys)
    for line in outlook(project.plan, project.shelf, _note):
        _print(line)
    return 0


def doctor(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Print what this machine can measure, what it lacks, and how noisy it is."""
    from vcsbench.foresee.doctor import doctor as examine

    project = _calibrating(options, keys)
    return examine(project.plan, project.shelf, _note, _print)


def show(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Print what a cell does, step by step."""
    from vcsbench.run import byhand

    project = _project(options, keys)
    cell = byhand.find(project.plan, options.cell)
    print(byhand.show(project, *cell, options.round))
    return 0


def measure(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Measure a cell once and print it; keep no result."""
    from vcsbench.run import byhand

    project = _project(options, keys)
    cell = byhand.find(project.plan, options.cell)
    print(byhand.run(project, *cell, options.round))
    return 0


def baseline(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Save the results as a baseline."""
    from vcsbench.statistics.baselines import main as save

    return save([options.name, *_studies(keys)])


def bundle(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Pack data, configuration and reports into bundles/NAME.tar.gz."""
    from vcsbench.run.bundle import main as pack

    return pack([options.name, *_studies(keys)])


def import_bundle(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Check a bundle, unpack it into a folder of its own, and make its reports again."""
    from vcsbench.run.opening import main as open_bundle

    return open_bundle([os.path.join(options.folder, options.bundle), options.name])


def clean(options: argparse.Namespace, keys: dict[str, Any]) -> int:
    """Remove results/ and all that vcsbench made on the storages for this checkout."""
    from vcsbench.run import byhand

    print("\n".join(byhand.clean(_project(options, keys))))
    return 0


def _studies(keys: dict[str, Any]) -> list[str]:
    """Return the studies of --study; none for all that have results."""
    return [study for study in keys.get("studies", []) if study != "all"]


def _calibrating(options: argparse.Namespace, keys: dict[str, Any]) -> Project:
    from vcsbench.run.orphans import end_when_told

    end_when_told()
    os.umask(0o022)  # The servers run as another user.
    return _project(options, keys)


def _project(options: argparse.Namespace, keys: dict[str, Any]) -> Project:
    from vcsbench.config.configuration import merge
    from vcsbench.config.validation import read_yaml
    from vcsbench.run.project import Project

    files = [ROOT / "config" / "config.yaml", *map(Path, options.configfiles)]
    config: dict[str, Any] = {}
    for file in files:
        config = merge(config, read_yaml(file))
    return Project({**config, **keys}, ROOT, files)


def _print_report(status: int, began: float) -> None:
    """Print the answers of the report and its path, of several studies that of their index."""
    reports = [path for path in sorted(Path("reports").glob("*.html")) if path.stem != "index"]
    if not reports:
        return
    report = reports[0] if len(reports) == 1 else Path("reports/index.html")
    if status and (not report.exists() or report.stat().st_mtime < began):
        print(f"The report was not written. That of an earlier run: {report.resolve()}")
        return
    from vcsbench.report.terminal import command_of, lines, read_summaries

    try:
        print("\n".join(lines(read_summaries(Path("results")), command_of(os.environ))))
    except (ValueError, LookupError, TypeError) as error:  # The page has the answers too.
        print(f"vcsbench: the answers cannot be printed: {error!r}", file=sys.stderr)
    print(f"Report: {report.resolve()}", flush=True)


def _now() -> float:
    import time

    return time.time()


def _print(text: str) -> None:
    print(text, flush=True)


def _note(text: str) -> None:
    print(f"vcsbench: {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vcsbench", description=__doc__, allow_abbrev=False, epilog="See docs/running.md."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(
        act: Callable[..., int], name: str = "", forwards: bool = False
    ) -> argparse.ArgumentParser:
        name = name or act.__name__
        more = " Other arguments go to Snakemake." if forwards else ""
        added = actions.add_parser(
            name,
            help=(act.__doc__ or "").partition("\n")[0],
            description=(act.__doc__ or "") + more,
            allow_abbrev=False,
        )
        added.set_defaults(act=act, forwards=forwards)
        added.add_argument(
            "--configfile",
            nargs="+",
            action="extend",
            default=[],
            metavar="FILE",
            help="a file with configuration keys, over config/config.yaml",
        )
        added.add_argument("--repository", metavar="PATH", help="measure this repository of yours")
        added.add_argument(
            "--tree", metavar="PATH", help="the tree in that repository, such as trunk"
        )
        added.add_argument("--study", metavar="NAME", help="a study, several with commas, or all")
        return added

    def add_run(act: Callable[..., int], name: str = "") -> argparse.ArgumentParser:
        added = add(act, name, forwards=True)
        added.add_argument(
            "--cores", default="all", help="cores for the preparation (default: all)"
        )
        return added

    for act in (run, check):
        added = add_run(act)
        added.add_argument("--minutes", metavar="M", help="how long the run may take")
        added.add_argument("--dry-run", "-n", action="store_true", help="list the jobs only")
    added.set_defaults(report_only=False)
    actions.choices["run"].add_argument(
        "--report-only",
        action="store_true",
        help="measure nothing: a report of the results that exist",
    )
    add_run(published_tables, "published-tables")
    add(plan)
    add(doctor)
    for act in (show, measure):
        added = add(act)
        added.add_argument("cell", help="as in the column `cell` of results/grid/<study>.csv")
        added.add_argument("--round", type=int, default=1, help="the round (default: 1)")
    add(baseline).add_argument("--name", required=True, help="the name, such as before-upgrade")
    add(bundle).add_argument("--name", default="", help="the name (default: the studies')")
    added = add(import_bundle, "import")
    added.add_argument("bundle", help="the file, such as january.tar.gz")
    added.add_argument("--name", default="", help="the folder below opened/")
    added.set_defaults(folder=os.getcwd())
    add(clean)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
