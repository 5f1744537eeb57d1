"""The command that fails in CI if a build is slower: an expectation for each candidate, and its check."""

from collections.abc import Sequence

from vcsbench import words
from vcsbench.advice.decision import Pair
from vcsbench.advice.labels import detectable_text
from vcsbench.advice.questions import CardAction
from vcsbench.advice.server_actions import ActionStep
from vcsbench.report.results import Results, unique_values

FILE = "my-expectations.yaml"
# A limit in per cent below the noise would fail builds that are not slower.
LIMITS_PCT = (5, 10, 15, 20, 30, 50)


def make_guard(results: Results, axis: str, pairs: Sequence[Pair]) -> CardAction:
    """Return the command that writes the expectations into FILE and checks them.

    `axis` is the compared one, such as `build`, and `pairs` are its comparisons. Each compared baseline and
    candidate gives an expectation: the candidate is nowhere slower by more than a limit. The limit is the
    smallest of LIMITS_PCT that is at least the largest detectable difference, or the last one if none is.
    """
    detectable = max(pair.detectable for pair in pairs)
    possible = [limit for limit in LIMITS_PCT if 1 + limit / 100 >= detectable]
    limit_pct = possible[0] if possible else LIMITS_PCT[-1]

    expectations = f"{results.study.name}:\n"
    for baseline, candidate in unique_values(pair.sides for pair in pairs):
        expectations += (
            f"  - id: {words.slug(candidate)}-not-slower\n"
            f"    statement: {candidate} is nowhere more than {limit_pct} % slower than {baseline}.\n"
            "    where: {}\n"
            f"    compare: {{axis: {axis}, baseline: {baseline}, candidate: {candidate}}}\n"
            f"    expect: {{over: min, at_least: {1 / (1 + limit_pct / 100):.3f}}}\n"
        )
    check = results.command.with_arguments(f"--config expectations=[{FILE}]").text("check")
    command = f"cat >{FILE} <<'END'\n{expectations}END\n{check}"

    note = (
        "It fails unless the 95 % interval of the slowest case is within the limit. "
        f"`at_least` is time of baseline / time of candidate: 1 / {1 + limit_pct / 100:g}. "
    )
    # Such as 1.08, and 0 if it is unknown.
    if detectable:
        note += (
            f"Here differences from {detectable_text(detectable)} on are detectable. "
            "Longer runs allow a lower limit."
        )
    return CardAction([ActionStep(command)], note)
