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
# The name of a cell, and the number of a round.
CellRound = tuple[str, int]


def group_by_state(frame: pd.DataFrame) -> list[pd.Series]:
    """Return the columns cell, host and state of a frame, if it has them, to group comparable runs by."""
    return [frame[name] for name in ("cell", "host", STATE_COLUMN) if name in frame]


def are_valid(frame: pd.DataFrame) -> pd.Series:
    """Return True for each run whose list of flags has none that makes it invalid."""
    return frame["flags"].map(flags.INVALID.isdisjoint).astype(bool)


def flag_other_libraries(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of runs, with the flag `libraries-differ` for each run with unusual libraries.

    Digests a, a, b of the libraries in three runs of a cell give the third one the flag. Digests a, b of two
    runs give it to both: without a majority, nothing shows which libraries are the usual ones.
    """
    # The runs that get the flag, by their labels in the index of the frame.
    runs_to_flag: set[object] = set()
    for _, rows in frame.groupby(["cell", "host"], sort=False):
        for column in ("client_mapped", "server_mapped"):
            # A process whose memory could not be read has the digest "".
            digests = rows[column][rows[column] != ""]
            if digests.nunique() > 1:
                usual_runs = same_work.majority(digests.to_dict())
                runs_to_flag |= set(digests.index) - usual_runs
    all_flags = []
    for run, run_flags in frame["flags"].items():
        if run in runs_to_flag:
            all_flags.append([*run_flags, Flag.LIBRARIES_DIFFER])
        else:
            all_flags.append(run_flags)
    return frame.assign(flags=pd.Series(all_flags, index=frame.index, dtype=object))


def find_all_flags(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Return all flags of each run as text, such as "too-short outlier-10".

    The column `flags` of `frame` has a list of the flags of this run alone. Flags from a comparison with
    other runs, mostly of the same cell, are added. For example, 2.3 s is an `outlier-10` if the median of the
    cell is 2 s.
    """
    # The times of invalid runs become NaN. A median leaves NaN out, and no comparison with NaN is True, so
    # invalid runs are no outliers.
    valid_elapsed_s = frame["elapsed_s"].where(are_valid(frame))
    median_s = valid_elapsed_s.groupby(group_by_state(frame)).transform("median")
    deviation = (valid_elapsed_s / median_s - 1).abs()

    has_unusual_work = _have_unusual_work(frame, axes)
    is_work_known = frame["work"] != ""
    # By flag: a column that is True for the runs which get the flag.
    is_flagged = {
        **{flag: deviation > limit for flag, limit in OUTLIERS.items()},
        Flag.TOO_SHORT: median_s < MIN_RUN_S,
        Flag.OTHER_WORK: has_unusual_work & is_work_known,
        Flag.WORK_UNKNOWN: ~is_work_known,
        Flag.MOSTLY_FIXED_COST: frame["fixed_share"] > flags.FLAGGED_SHARE,
        Flag.CONDITIONS_DIFFER: _have_other_conditions(frame),
    }
    texts = []
    rows = pd.DataFrame(is_flagged).to_dict("records")
    for evidence_flags, row in zip(frame["flags"], rows, strict=True):
        added_flags = [flag for flag in is_flagged if row[flag]]
        texts.append(flags.join_flags([*evidence_flags, *added_flags]))
    return texts


def _have_unusual_work(frame: pd.DataFrame, axes: Sequence[str]) -> pd.Series:
    """Return True for each run that did other work than most runs of its command on the same repository.

    Without a majority, all runs of that command and repository give True. Unknown work ("") gives True, too.
    Work that differs by design (`work: unchecked` in the file of a study) gives False.
    """
    # The runs with the usual work, by their labels in the index of the frame.
    usual_runs: set[object] = set()
    # Other axes, such as the access, do not change the work of a command.
    for _, rows in group_rows(frame, same_work.work_axes(axes)):
        usual_runs |= same_work.majority(rows["work"].to_dict())
    is_usual = pd.Series(frame.index.isin(usual_runs), index=frame.index)
    is_unchecked = frame["work"].map(same_work.is_unchecked).astype(bool)
    return ~is_usual & ~is_unchecked


def _have_other_conditions(frame: pd.DataFrame) -> pd.Series:
    """Return True for each run that was measured under other conditions than most cell-rounds of its machine.

    Conditions are settings of the processes of a cell-round, as text: '{"cpus": [0, 1], "nice": 0}'. They
    do not depend on the cell, so they are compared over all cells. Three cell-rounds with the nice values
    0, 0 and 10 give True for the runs of the third. Two with 0 and 10 give True for the runs of both, because
    neither value is usual. Runs without a record of conditions ("") give False.
    """
    is_different = pd.Series(False, index=frame.index)
    # Only collected measurements have the column. It is no column of their CSV file.
    if CONDITIONS not in frame:
        return is_different
    for _, rows in frame[frame[CONDITIONS] != ""].groupby("host"):
        unusual_rounds: set[CellRound] = set()
        for value_by_round in _values_by_condition(rows).values():
            # The cell-rounds with the most frequent value; none if two values are equally frequent.
            usual_rounds = same_work.majority(value_by_round)
            unusual_rounds |= value_by_round.keys() - usual_rounds
        cell_rounds = zip(rows["cell"], rows["round"], strict=True)
        is_unusual = [cell_round in unusual_rounds for cell_round in cell_rounds]
        # The rows of other machines get False here.
        is_different |= pd.Series(is_unusual, rows.index).reindex(frame.index, fill_value=False)
    return is_different


def _values_by_condition(rows: pd.DataFrame) -> dict[str, dict[CellRound, str]]:
    """Return the value of each condition in each cell-round: {"nice": {("log/svn", 1): "0"}}."""
    values_by_condition: dict[str, dict[CellRound, str]] = {}
    # Most rows have equal texts. Grouped by their text, each different text is parsed only once.
    for conditions, equal_rows in rows.groupby(CONDITIONS):
        cell_rounds = set(zip(equal_rows["cell"], equal_rows["round"], strict=True))
        for condition, value in json.loads(str(conditions)).items():
            value_by_round = values_by_condition.setdefault(condition, {})
            value_by_round.update(dict.fromkeys(cell_rounds, json.dumps(value)))
    return values_by_condition
