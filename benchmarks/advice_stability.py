"""How often two sessions of the same truth give different advice: the shipped rule on simulated comparisons.

Each question has the cases of two commands, two accesses and two states of caches. A session measures the
factor of each case with an error, decides it as tables do, and gives the answer of the card. The answer is
its value, and the rule if it depends. `python benchmarks/advice_stability.py` prints one line for each kind
of truth:

- `effects of 15 %`: the factors of all cases are independent, with a standard deviation of 0.15 of their
  logarithm. Many are near the margin of 10 %, so this is a hard truth.
- `effects of 40 %`: the same, with larger effects, such as those of packing and of formats.
- `one kind of case`: a factor of up to 2 for one command, and less than 5 % elsewhere.
- `half of the kinds of case`: each command with cold or warm caches has an effect of 40 % or none. Cases of
  one kind differ by 4 %.
"""

import itertools
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from vcsbench.advice.cards import make_card
from vcsbench.advice.decision import find_cases
from vcsbench.advice.questions import CardQuestion
from vcsbench.codes import AnswerKind
from vcsbench.statistics.comparisons import Limits, classify_call

AXES = ["command", "access", "format", "cache"]
CELLS = [
    {"command": command, "access": access, "cache": cache}
    for command, access, cache in itertools.product(
        ("log", "export"), ("http", "svn"), ("cold", "hot-server")
    )
]
LIMITS = Limits()
# The standard errors of a quiet machine: warm and cold.
ERRORS = (0.02, 0.06)
# The quantile of Student's t for the interval of 95 %, with the moderated variance of a study.
QUANTILE = 2.0
QUESTIONS = 1000
# The share of questions with different advice is limited for this kind: the effects of the others are so
# often near the margin that no rule with a margin gives the same answer twice.
LIMITED = "one kind of case"
MOST_DIFFERENT = 0.05


class Advice(NamedTuple):
    """The answer of a card: the value to choose, and whether it depends on the kind of case."""

    value: str
    depends: bool


def draw_truth(kind: str, rng: random.Random) -> list[float]:
    """Return the logarithm of the true factor of each case."""
    if kind == "one kind of case":
        effect = rng.uniform(-math.log(2), math.log(2))
        truth = []
        for cell in CELLS:
            is_affected = cell["command"] == "log"
            truth.append(rng.gauss(effect, 0.05) if is_affected else rng.gauss(0, 0.02))
        return truth
    if kind == "half of the kinds of case":
        # The effect on the cases of each command and cache, which half of them have.
        effects = {}
        for cell in CELLS:
            group = (cell["command"], cell["cache"])
            if group not in effects:
                effects[group] = rng.gauss(0, 0.4) if rng.random() < 0.5 else 0.0
        return [rng.gauss(effects[cell["command"], cell["cache"]], 0.04) for cell in CELLS]
    spread = 0.15 if kind == "effects of 15 %" else 0.4
    return [rng.gauss(0, spread) for _ in CELLS]


def measure(truth: Sequence[float], errors: Sequence[float], rng: random.Random) -> Advice:
    """Return the advice of one session, which measures the factor of each case with an error."""
    rows = []
    for cell, true_log, error in zip(CELLS, truth, errors, strict=True):
        rows.append({**cell, **make_comparison(rng.gauss(true_log, error), error)})
    cases, _ = find_cases("format", rows, AXES)
    question = CardQuestion("format", "Which format?")
    card = make_card(question, "f6", AXES, cases, LIMITS.min_effect_pct)
    return Advice(card.answer.value, card.answer.kind == AnswerKind.DEPENDS)


def make_comparison(log: float, error: float) -> dict[str, Any]:
    """Return a row of a table that compares f6 and f7, by the logarithm of their ratio and its error."""
    ratio = math.exp(log)
    low, high = math.exp(log - QUANTILE * error), math.exp(log + QUANTILE * error)
    # The largest difference in either direction that the interval does not exclude.
    within = max(high, 1 / low)
    call = "undecided"
    if low > 1:
        call = "faster"
    elif high < 1:
        call = "slower"
    elif within <= LIMITS.margin:
        call = "equal"
    elif within <= LIMITS.bound:
        call = "bounded"
    return {
        "baseline": "f6",
        "candidate": "f7",
        "ratio": ratio,
        "low": low,
        "high": high,
        "n": 5,
        "call": call,
        "result": classify_call(call, ratio, LIMITS),
        "within": within,
        "withheld": "",
        "baseline_mean": ratio,
        "candidate_mean": 1.0,
    }


def simulate(
    kind: str, questions: int = QUESTIONS, seed: int = 1
) -> Iterator[tuple[Advice, Advice]]:
    """Yield the advice of two sessions for each question."""
    rng = random.Random(f"{kind} {seed}")
    for _ in range(questions):
        truth = draw_truth(kind, rng)
        errors = [rng.uniform(*ERRORS) for _ in CELLS]
        yield measure(truth, errors, rng), measure(truth, errors, rng)


KINDS = (
    "effects of 15 %",
    "effects of 40 %",
    "one kind of case",
    "half of the kinds of case",
)


def main() -> int:
    """Print the shares of questions with different advice. Return 1 if LIMITED has more than its limit."""
    code = 0
    for kind in KINDS:
        counts: Counter[str] = Counter()
        for first, second in simulate(kind):
            if first.value != second.value:
                # A value against none is no contradiction, but another answer.
                is_contradiction = first.value and second.value
                counts["another value" if is_contradiction else "a value or none"] += 1
            elif first.depends != second.depends:
                counts["depends or not"] += 1
        different = counts.total() / QUESTIONS
        shares = [f"{name} {count / QUESTIONS:.1%}" for name, count in sorted(counts.items())]
        print(f"{kind}: {different:.1%} different ({', '.join(shares)})")
        if kind == LIMITED and different > MOST_DIFFERENT:
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
