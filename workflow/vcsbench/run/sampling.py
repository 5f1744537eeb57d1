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
        """Return the exports (result files) of a study. Snakemake measures those that are missing.

        With a time limit, raise Snakemake's exception until all rounds are decided (_require_decisions).
        """
        if self.is_cluster:
            # The jobs of the nodes make the exports, so rules here depend on the records of these jobs.
            return []
        if self.measures_nothing:
            # Snakemake would measure exports that are missing or out of date, so only fresh ones are named.
            return self.plan.fresh_exports_of_study(study)
        # Without a time limit, the configuration fixes the rounds, and there are no batches.
        if study in self.plan.batches:
            self._require_decisions(study, decide)
        return self.plan.exports_of_study(study)

    def _require_decisions(self, study: str, decide: Decide) -> None:
        """Raise Snakemake's exception, by `decide`, if the next decision on the rounds of a study is missing.

        The study is measured in batches of rounds. A decision file gives the rounds of a batch, or gives none
        and ends the measurement. After the exception, Snakemake makes the file, and calls exports() again:

        1. The first call needs the decision on batch 2, which is missing.
        2. The second call finds that batch 2 has rounds, and needs the decision on batch 3.
        3. The third call finds that batch 3 has no rounds, and returns.
        """
        batches = self.plan.batches[study]
        # `next` is the batch after the last one with rounds. It reads the decision files each time.
        batch = batches.next
        while True:
            decide(study=study, number=str(batch))
            next_batch = batches.next
            # The decision exists, but gives the batch no rounds.
            if next_batch == batch:
                return
            batch = next_batch

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
        """Return about how many seconds of the time limit earlier runs have used, for results that are fresh.

        Studies without a time limit do not count.
        """
        total_s = 0.0
        for study in self.plan.batches:
            total_s += self._spent_s_of_study(study)
        return total_s

    def _spent_s_of_study(self, study: str) -> float:
        """Return about how many seconds the fresh results of a study took.

        If the study took 100 s for four results, and one of them is fresh, that is 25 s.
        """
        for file in reversed(self.decisions(study)):
            # {} if the file does not exist. A decision has the time of all results until then.
            decision = read_json(self.plan.root / file)
            if "spent_s" not in decision:
                continue
            exports = self.plan.exports_of_study(study)
            # By now, this machine may skip all cells of the study.
            if not exports:
                return 0.0
            # Outdated results are measured again, so their part of the time does not count. As an estimate,
            # each export took the same time.
            fresh_exports = self.plan.fresh_exports_of_study(study)
            return decision["spent_s"] * len(fresh_exports) / len(exports)
        return 0.0

    def traces(self, study: str) -> list[str]:
        return [] if self.is_cluster else self._find_traces(study)

    def traces_of_nodes(self, study: str) -> list[str]:
        """Return the counts of system calls that the nodes of a cluster made; [] on one machine."""
        return self._find_traces(study) if self.is_cluster else []

    def _find_traces(self, study: str) -> list[str]:
        if self.measures_nothing:
            return self.plan.existing_traces(study)
        return list(self.plan.trace_files(study).values())
