"""What Snakemake is told of a rule's functions, so that it does not find it out thousands of times."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from snakemake import common
from snakemake.jobs import Job
from snakemake.resources import Resource

from vcsbench.run.dependencies import ROOT, no_pipes, signed, signed_resources


def test_the_signatures_that_are_noted_are_those_that_snakemake_would_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function(wildcards: Any, attempt: int) -> int:
        return attempt

    # What the workflow's start may have noted in this process is taken back for a moment.
    monkeypatch.delattr(Resource.evaluate, "_overwrite_params", raising=False)
    resource = Resource("order", function)
    asked = (function, resource.evaluate)
    found = [dict(common.get_function_params(one)) for one in asked]
    signed(function)
    signed_resources()

    def refuse(*_: Any) -> None:
        raise AssertionError("a signature is found out anew")

    monkeypatch.setattr(inspect, "signature", refuse)
    assert [dict(common.get_function_params(one)) for one in asked] == found
    assert resource.evaluate("w", attempt=3, threads=1).value == 3


def test_no_input_is_looked_for_among_pipes_and_no_rule_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Otherwise it is asked of each input of a job, through all jobs that it depends on.
    monkeypatch.setattr(Job, "is_pipe_or_service_input", Job.is_pipe_or_service_input)
    no_pipes()
    assert Job.is_pipe_or_service_input(object(), "results/measurements/x.csv") is False
    for file in [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]:
        assert not re.search(r"\b(pipe|service)\(", file.read_text()), file
