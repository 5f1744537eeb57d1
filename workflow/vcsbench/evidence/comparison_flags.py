"""Flag runs by a comparison with other runs: outliers, other work, other libraries, other conditions.

Until all flags are found, the column `flags` of a frame has a list of words for each run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd

from vcsbench.evidence import flags, same_work
from vcsbench.evidence.column_names import CONDITIONS, STATE_COLUMN
from vcsbench.evidence.flags import Flag
from vcsbench.evidence.measurements import group_rows

# The published tables define these limits.
OUTLIERS = {Flag.OUTLIER_10: 0.1, Flag.OUTLIER_20: 0.2}
# Below this median of a cell, the noise of starting a process can be a noticeable share of a difference.
MIN_RUN_S = 0.2


def group_by_state(frame: pd.DataFrame) -> list[pd.Series]:
    """Return the columns to group a frame by: runs with equal values in all of them have comparable times.

    They are cell, host and state, without those that the frame does not have.
    """
    return [frame[name] for name in ("cell", "host", STATE_COLUMN) if name in frame]


def are_valid(frame: pd.DataFrame) -> pd.Series:
    """Return True for each run whose list of flags has none that makes it invalid."""
    return frame["flags"].map(flags.INVALID.isdisjoint).astype(bool)


def flag_other_libraries(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of runs, with the flag `libraries-differ` for each run with unusual libraries.

    A flag is a word for something that is wrong with a run. `frame` has a row for each run of a cell (a
    command with all settings with which it is timed), with a list of flags. The columns `client_mapped` and
    `server_mapped` have digests of the files in the memory of client and server, such as libraries. Digests
    a, a, b of three runs give the third one the flag. Digests a, b of two runs give it to both: without a
    majority, nothing shows which libraries are the usual ones.
    """
    # The runs that get the flag, by their labels in the index of the frame.
    runs_to_flag: set[object] = set()
    # Each machine may have other libraries, and runs on different machines are never compared.
    for _, rows in frame.groupby(["cell", "host"], sort=False):
        for column in ("client_mapped", "server_mapped"):
            # A process whose memory could not be read has the digest "", which is no difference.
            digests = rows[column][rows[column] != ""]
            if digests.nunique() > 1:
                # The runs with the most frequent digest; an empty set if two digests are equally frequent.
                usual_runs = same_work.majority(digests.to_dict())
                runs_to_flag |= set(digests.index) - usual_runs
    all_flags = []
    for run, run_flags in frame["flags"].items():
        if run in runs_to_flag:
            all_flags.append([*run_flags, Flag.LIBRARIES_DIFFER])
        else:
            all_flags.append(run_flags)
    # By the index of the frame, each list belongs to its run.
    return frame.assign(flags=pd.Series(all_flags, index=frame.index, dtype=object))


def find_all_flags(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Return all flags of each run as text, such as "too-short outlier-10".

    A flag is a word for something that is wrong with a run. `frame` has a row for each run, and its column
    `flags` has a list of flags from what was observed of this run alone. Flags from a comparison with other
    runs, mostly of the same cell (a command with its settings, its values on the `axes`), are added. For
    example, 2.3 s is an `outlier-10` if the median is 2 s, and all runs of a cell with a median of 0.1 s are
    `too-short` (below MIN_RUN_S).
    """
    # Times are compared with the median of the valid runs of the cell in the same state, such as cold.
    # where() makes the times of invalid runs NaN. A median leaves NaN out, and no comparison with NaN is
    # True, so invalid runs are no outliers.
    valid_elapsed_s = frame["elapsed_s"].where(are_valid(frame))
    median_s = valid_elapsed_s.groupby(group_by_state(frame)).transform("median")
    deviation = (valid_elapsed_s / median_s - 1).abs()

    # The column `work` has figures and a digest of a run's output or files, as JSON text; "" if unknown. All
    # runs of a command on a repository should do the same. Runs that differ from most have unusual work.
    has_unusual_work = _have_unusual_work(frame, axes)
    is_work_known = frame["work"] != ""
    # By flag: a column that is True for the runs which get the flag.
    is_flagged = {
        **{flag: deviation > limit for flag, limit in OUTLIERS.items()},
        Flag.TOO_SHORT: median_s < MIN_RUN_S,
        Flag.OTHER_WORK: has_unusual_work & is_work_known,
        Flag.WORK_UNKNOWN: ~is_work_known,
        # `fixed_share` is the share of start-up in the time of the cell. It is flagged above a quarter.
        Flag.MOSTLY_FIXED_COST: frame["fixed_share"] > flags.FLAGGED_SHARE,
        Flag.CONDITIONS_DIFFER: _have_other_conditions(frame),
    }
    # From columns by flag to the flags of each run.
    texts = []
    rows = pd.DataFrame(is_flagged).to_dict("records")
    for evidence_flags, row in zip(frame["flags"], rows, strict=True):
        added_flags = [flag for flag in is_flagged if row[flag]]
        texts.append(flags.join_flags([*evidence_flags, *added_flags]))
    return texts


def _have_unusual_work(frame: pd.DataFrame, axes: Sequence[str]) -> pd.Series:
    """Return True for each run that did other work than most runs of its command on the same repository.

    Work is what a run printed or wrote. The column `work` has its figures as JSON, and equal text means equal
    work: '{"revisions":6000}'. Without a majority, all runs of that command and repository give True. Unknown
    work ("") gives True, too. Work that differs by design (`work: unchecked` in the file of a benchmark)
    gives False. `axes` are the columns with the settings of a run, such as ["command", "repo", "access"].
    """
    # The runs with the usual work, by their labels in the index of the frame.
    usual_runs: set[object] = set()
    # work_axes() returns the settings that change the work: the command and its input. With another value of
    # any other one, such as the access, a command does the same work.
    for _, rows in group_rows(frame, same_work.work_axes(axes)):
        usual_runs |= same_work.majority(rows["work"].to_dict())
    is_usual = pd.Series(frame.index.isin(usual_runs), index=frame.index)
    is_unchecked = frame["work"].map(same_work.is_unchecked).astype(bool)
    return ~is_usual & ~is_unchecked


def _have_other_conditions(frame: pd.DataFrame) -> pd.Series:
    """Return True for each run that was measured under other conditions than most cell-rounds of its machine.

    A cell-round is one round of a command with all its settings. Its conditions are a mapping as text, such
    as '{"cpus": [0, 1], "nice": 0}' (run_columns.comparable_conditions). None of them belongs to a cell, so
    they are compared over all cells. Three cell-rounds with the nice values 0, 0 and 10 give True for the
    runs of the third. Two with 0 and 10 give True for all runs, because neither value is the usual one. Runs
    without a record of conditions ("") give False.
    """
    is_different = pd.Series(False, index=frame.index)
    # Only collected measurements have the column. It is no column of their CSV file.
    if CONDITIONS not in frame:
        return is_different
    for _, rows in frame[frame[CONDITIONS] != ""].groupby("host"):
        # By condition: its value in each cell-round, as text.
        texts_by_name: dict[str, dict[tuple[str, int], str]] = {}
        # Few cell-rounds differ, so few different texts have to be read.
        for conditions, equal_rows in rows.groupby(CONDITIONS):
            cell_rounds = set(zip(equal_rows["cell"], equal_rows["round"], strict=True))
            for name, value in json.loads(str(conditions)).items():
                texts = texts_by_name.setdefault(name, {})
                texts.update(dict.fromkeys(cell_rounds, json.dumps(value)))
        unusual_rounds: set[tuple[str, int]] = set()
        for texts in texts_by_name.values():
            if len(set(texts.values())) > 1:
                # majority() has those with the most frequent text; none if two are equally frequent.
                unusual_rounds |= texts.keys() - same_work.majority(texts)
        all_rounds = zip(rows["cell"], rows["round"], strict=True)
        is_unusual = [cell_round in unusual_rounds for cell_round in all_rounds]
        is_different |= pd.Series(is_unusual, rows.index).reindex(frame.index, fill_value=False)
    return is_different
