"""The noise floors on a study's page."""

from unit.report_files import make_files, results_of
from vcsbench.report.noise import noise_rows, noise_sentence
from vcsbench.report.page import build_page


def test_the_page_says_what_identical_cells_differ_by(tmp_path):
    made = make_files(tmp_path, twins=1, noise=0.01)
    results = results_of(made)
    page = build_page(results)
    assert page.count("<tr><td>log cold http</td>") == 1
    assert "Identical cells under two names may differ here by" in page
    assert ", 18 of them twice, in 5 rounds" in page
    assert len(noise_rows(results.noise, results.study.noise_class)) == 18


def test_without_twins_the_page_says_that_the_floor_is_not_known(tmp_path):
    page = build_page(results_of(make_files(tmp_path)))
    assert "the noise floor is not known" in page


def test_a_floor_is_told_in_per_cent():
    row = {"command": "log", "ra": "", "twins": 1.0, "rounds": 5.0, "differed": 1.012}
    known = row | {"noise_floor": 1.034, "detectable": 1.2}
    [told] = noise_rows([known], ["command", "ra"])
    assert (told.of, told.differed, told.floor, told.detectable) == ("log", "1.2", "3.4", "20")
    unknown = row | {"noise_floor": None, "detectable": None}
    assert "by 3.4 %" in noise_sentence([known, unknown])
    assert "For 1 class it is not known" in noise_sentence([known, unknown])
