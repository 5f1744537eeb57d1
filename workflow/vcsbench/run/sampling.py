"""The cell-rounds that a run measures: fixed, or decided batch by batch."""

from collections.abc import Callable

from vcsbench.files import read_json
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import NOTHING, decision_of

# The `get` of the checkpoint. It raises until the decision is made, and Snakemake calls the function again.
Decide = Callable[..., object]


class SamplingState:
    """The exports and decisions that rules read. On a cluster, they are the records of the nodes' jobs."""

    def __init__(self, plan: Plan, is_cluster: bool = False) -> None:
        self.plan = plan
        self.is_cluster = is_cluster
        self.measures_nothing = plan.config.settings.measure == NOTHING

    def exports(self, study: str, decide: Decide) -> list[str]:
        """Return the exports after the last decision. Raise the exception of `decide` without it."""
        if self.is_cluster:
            return []
        # Only existing results: Snakemake would measure a missing one.
        if self.measures_nothing:
            return self.plan.fresh_exports_of_study(study)
        if study in self.plan.batches:
            batches = self.plan.batches[study]
            decided = 0
            # A decision that gives rounds is followed by another decision, so the number of the next one
            # grows. After a decision without rounds, the number stays the same, and the loop ends.
            while decided != batches.next:
                decided = batches.next
                decide(study=study, number=str(decided))
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

        Only studies whose rounds are decided in batches count.
        """
        spent_s = 0.0
        for study in self.plan.batches:
            exports = self.plan.exports_of_study(study)
            fresh = self.plan.fresh_exports_of_study(study)
            for file in reversed(self.decisions(study)):
                # The file of the next decision is still missing: {}. The youngest existing one has the time
                # of all results, so the part of the outdated ones is subtracted.
                decision = read_json(self.plan.root / file)
                if "spent_s" in decision:
                    spent_s += decision["spent_s"] * len(fresh) / len(exports)
                    break
        return spent_s

    def traces(self, study: str) -> list[str]:
        if self.is_cluster:
            return []
        if self.measures_nothing:
            return self.plan.existing_traces(study)
        return list(self.plan.trace_files(study).values())
