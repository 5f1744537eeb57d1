"""The cell-rounds that a run measures: fixed, or decided batch by batch."""

from collections.abc import Callable

from vcsbench.files import read_json
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import NOTHING, decision_of

# The `get` of the checkpoint. It raises until the decision is made, and Snakemake calls the function again.
Decide = Callable[..., object]


class SamplingState:
    """The exports and decisions that rules read. On a cluster, rules read the records of the nodes' jobs."""

    def __init__(self, plan: Plan, is_cluster: bool = False) -> None:
        self.plan = plan
        self.is_cluster = is_cluster
        self.measures_nothing = plan.config.settings.measure == NOTHING

    def exports(self, study: str, decide: Decide) -> list[str]:
        """Return the exports of a study, after the last decision on more rounds.

        With a time limit, a study is measured in batches of rounds. A decision file defines each batch after
        the first one, or has no rounds, and ends the measurement. `decide` raises an exception of Snakemake
        until the file of a batch exists. Snakemake then makes the file, and calls this method again.
        """
        if self.is_cluster:
            # The jobs of the nodes make the exports, so rules here depend on the records of these jobs.
            return []
        if self.measures_nothing:
            # Snakemake would measure all others.
            return self.plan.fresh_exports_of_study(study)
        # A study without a time limit has no batches.
        if study in self.plan.batches:
            batches = self.plan.batches[study]
            # `next` reads the decision files each time. It is the batch after the last one with rounds: 2
            # before any decision.
            batch = batches.next
            decided_batch = 0  # no batch has this number
            while batch != decided_batch:
                decide(study=study, number=str(batch))
                decided_batch = batch
                # If the decision has rounds, `next` is now a later batch.
                batch = batches.next
        return self.plan.exports_of_study(study)

    def exports_of_nodes(self, study: str) -> list[str]:
        """Return the exports of a study that the nodes of a cluster made; [] on one machine."""
        if not self.is_cluster:
            return []
        if self.measures_nothing:
            return self.plan.fresh_exports_of_study(study)
        return self.plan.exports_of_study(study)

    def next_decision(self, study: str) -> list[str]:
        """Return the file of the decision that follows the last batch; [] if the rounds are fixed."""
        if self.measures_nothing:
            return []
        return self.decisions(study)[-1:]

    def decisions(self, study: str) -> list[str]:
        """Return the files of all decisions up to the next one. The first batch has none."""
        if study not in self.plan.batches:
            return []
        return [decision_of(study, n) for n in range(2, self.plan.batches[study].next + 1)]

    def spent_s(self) -> float:
        """Return about how many seconds earlier runs took for the results that are up to date.

        These seconds are a part of the time limit. Studies without a limit do not count.
        """
        total_s = 0.0
        for study in self.plan.batches:
            # The last decision that exists has the time of all results until then (`spent_s`).
            for file in reversed(self.decisions(study)):
                decision = read_json(self.plan.root / file)
                if "spent_s" in decision:
                    # Outdated results are measured again, so their part of the time does not count. As an
                    # estimate, each export counts the same.
                    exports = self.plan.exports_of_study(study)
                    fresh_exports = self.plan.fresh_exports_of_study(study)
                    # By now, this machine may skip all cells of the study.
                    if exports:
                        total_s += decision["spent_s"] * len(fresh_exports) / len(exports)
                    break
        return total_s

    def traces(self, study: str) -> list[str]:
        return [] if self.is_cluster else self._find_traces(study)

    def traces_of_nodes(self, study: str) -> list[str]:
        """Return the counts of system calls that the nodes of a cluster made; [] on one machine."""
        return self._find_traces(study) if self.is_cluster else []

    def _find_traces(self, study: str) -> list[str]:
        if self.measures_nothing:
            return self.plan.existing_traces(study)
        return list(self.plan.trace_files(study).values())
