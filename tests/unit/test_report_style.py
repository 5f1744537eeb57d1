"""The colours of the page: every text can be read, and steps of colour are steps of effect."""

from __future__ import annotations

import re

import pytest

from vcsbench.report.colours import FACTORS, class_of, legend, step
from vcsbench.report.page import ASSETS

STYLE = (ASSETS / "style.css").read_text(encoding="utf-8")
# WCAG: 4.5 for text of this size, 3 for what is no text.
READABLE = 4.5


def themes() -> dict[str, dict[str, str]]:
    """The colours by name of the light and the dark page."""
    light, dark = (
        dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    )
    return {"light": light, "dark": light | dark}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_can_be_read_on_every_colour(theme: str) -> None:
    colours = themes()[theme]
    for side in "xy":
        for number in range(1, len(FACTORS) + 1):
            assert contrast(colours["ink"], colours[f"{side}{number}"]) >= READABLE
    for text in ("ink", "soft", "link", "bad", "good"):
        assert contrast(colours[text], colours["paper"]) >= READABLE, text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_step_stands_out_more_than_the_one_before(theme: str) -> None:
    colours = themes()[theme]
    for side in "xy":
        ramp = [colours["paper"], *(colours[f"{side}{n}"] for n in range(1, len(FACTORS) + 1))]
        distances = [contrast(colours["paper"], colour) for colour in ramp]
        assert distances == sorted(distances)
        assert len(set(distances)) == len(ramp)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_sides_differ_in_blue_which_the_colour_blind_see(theme: str) -> None:
    colours = themes()[theme]
    for number in range(2, len(FACTORS) + 1):
        blue_x, blue_y = (int(colours[f"{side}{number}"][5:], 16) for side in "xy")
        assert blue_y - blue_x >= 40


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        (0, 0),
        (4.9, 0),
        (5, 1),
        (10, 2),
        (20, 3),
        (50, 4),
        (100, 5),
        (300, 6),
        (5000, 6),
        (-4.7, 0),
        (-50, -5),
        (-75, -6),
        (-100, -6),
    ],
)
def test_steps_begin_at_factors_and_are_clamped(percent: float, expected: int) -> None:
    assert step(percent) == expected


@pytest.mark.parametrize("factor", [1.02, 1.07, 1.3, 1.9, 3.0, 8.0])
def test_twice_as_fast_is_as_strong_as_half_as_fast(factor: float) -> None:
    assert step(100 * (factor - 1)) == -step(100 * (1 / factor - 1))


def test_legend_names_every_step_of_the_style() -> None:
    classes = [swatch.style for swatch in legend(1)]
    assert classes == [*(f"x{n}" for n in range(6, 0, -1)), "", *(f"y{n}" for n in range(1, 7))]
    for name in filter(None, classes):
        assert f".{name} {{ background: var(--{name}); }}" in STYLE
    assert [swatch.edge for swatch in legend(1)][-3:] == ["+50", "+100", "+300"]


def test_where_more_is_better_the_sides_change_their_numbers() -> None:
    assert class_of(step(100), 1) == class_of(step(-50), -1) == "y5"
    more = legend(-1)
    assert [swatch.style for swatch in more] == [swatch.style for swatch in legend(1)]
    assert [swatch.edge for swatch in more][:2] == ["+300", "+100"]
