"""The noise on a study's page."""

from unit.report_files import make_files, results_of
from vcsbench.report.noise import noise_rows, noise_sentence
from vcsbench.report.page import build_page


def test_the_page_says_what_identical_cells_differ_by(tmp_path):
    made = make_files(tmp_path, twins=1, noise=0.01)
    results = results_of(made)
    page = build_page(results)
    assert page.count("<tr><td>log cold http</td>") == 1
    assert "18 cells measured twice under two names, in the same rounds" in page
    assert ", 18 of them twice, in 5 rounds" in page
    assert len(noise_rows(results.noise, results.study.variance_group)) == 18


def test_without_twins_the_page_says_that_it_is_not_known(tmp_path):
    page = build_page(results_of(make_files(tmp_path)))
    assert "nothing is called a difference: set `duplicates` to 1 or more" in page


def test_noise_is_told_in_per_cent():
    row = {"command": "log", "ra": "", "twins": 1.0, "rounds": 5.0, "differed": 1.034}
    row |= {"chance": 1.012, "spread": 1.2, "within": None, "twin_sd": 1.021}
    [told] = noise_rows([row], ["command", "ra"])
    assert (told.of, told.differed, told.chance, told.spread, told.within) == (
        *("log", "3.4", "1.2", "20", ""),
    )
    assert "the two differ by 2.1 % (a standard deviation)" in noise_sentence([row, row])
    assert "2 cells measured twice" in noise_sentence([row, row])
    assert "no more than their rounds" in noise_sentence([row | {"twin_sd": 1.0}])
    assert "it is not known" in noise_sentence([row | {"twin_sd": None, "twins": 0.0}])
