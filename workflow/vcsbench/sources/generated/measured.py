"""Distributions that were measured on public histories.

docs/sources.md says on which, how, and how well the generated histories keep to them. Each
table reads: at this share of the cases, the value is so much or less.
"""

from __future__ import annotations

from vcsbench.sources.generated.quantiles import Quantiles

# The shares at which values were read, and the shares of the files at which changes were.
SHARES = (0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999, 1)
FILES = (0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)


def _values(*values: float) -> Quantiles:
    return Quantiles(*zip(SHARES, values, strict=True))


def _heat(*shares: float) -> Quantiles:
    return Quantiles(*zip(shares, FILES, strict=True))


# Files changed per revision of trunk, the journal (ChangeLog, CHANGES) apart; the value between
# two whole numbers is cut, so that ruby's 1 holds from the share 0.041 to 0.65.
RUBY_PATHS = Quantiles(
    (0, 0), (0.041, 1), (0.65, 2), (0.82, 3), (0.90, 4), (0.95, 6.5), (0.98, 12), (0.99, 19),
    (0.995, 31), (0.999, 112), (1, 300),
)  # fmt: skip
SUBVERSION_PATHS = Quantiles(
    (0, 1), (0.65, 2), (0.78, 3), (0.86, 4), (0.90, 5.5), (0.95, 8), (0.98, 14), (0.99, 21),
    (0.995, 32), (0.999, 114), (1, 400),
)  # fmt: skip
HTTPD_PATHS = Quantiles(
    (0, 0), (0.039, 1), (0.66, 2), (0.81, 3), (0.87, 4), (0.90, 5.5), (0.95, 10), (0.98, 23),
    (0.99, 43), (0.995, 76), (0.999, 282), (1, 618),
)  # fmt: skip
KDELIBS_PATHS = Quantiles(
    (0, 1), (0.55, 2), (0.77, 3), (0.86, 4), (0.90, 5.5), (0.95, 8.5), (0.98, 18), (0.99, 31),
    (0.995, 54), (0.999, 295), (1, 1000),
)  # fmt: skip

# Sizes of the files of trunk in bytes.
RUBY_FILES = _values(0, 88, 172, 472, 1755, 5953, 16987, 35890, 95572, 160755, 754604, 1500000)
SUBVERSION_FILES = _values(
    0, 888, 1281, 2362, 5346, 16261, 46376, 83632, 186284, 303743, 879066, 2011364
)
KDELIBS_FILES = _values(0, 32, 41, 660, 2135, 5503, 13977, 25281, 46066, 59584, 185789, 2952854)
LINUX_FILES = _values(6, 159, 391, 1316, 4075, 11151, 26241, 42954, 71198, 97192, 310443, 873603)

# Hunks per changed file. The last hundredth reaches 1,300 and more: whole files reformatted.
HUNKS = Quantiles(
    (0, 1), (0.45, 2), (0.65, 3), (0.75, 4), (0.9, 9), (0.95, 16), (0.98, 31), (0.99, 51), (1, 80)
)

# Bytes of the lines that a hunk adds or removes, where it does any.
HUNK_BYTES = Quantiles(
    (0, 2), (0.11, 19), (0.22, 30), (0.33, 38), (0.44, 49), (0.56, 62), (0.72, 93), (0.89, 220),
    (0.944, 390), (0.978, 790), (0.989, 1350), (0.9989, 5300), (1, 15000),
)  # fmt: skip
# Of all hunks, those that only add and those that only remove.
PURE_ADDITIONS = 0.19
PURE_REMOVALS = 0.085

# Of all changes of files, the share that goes to the most changed ones, and their share of the
# files: in ruby a hundredth of the files has 36 percent of the changes.
RUBY_HEAT = _heat(0, 0.114, 0.266, 0.36, 0.465, 0.603, 0.708, 0.816, 0.944, 1)
SUBVERSION_HEAT = _heat(0, 0.011, 0.071, 0.123, 0.194, 0.337, 0.48, 0.644, 0.845, 1)
KDELIBS_HEAT = _heat(0, 0.037, 0.105, 0.156, 0.238, 0.393, 0.533, 0.695, 0.904, 1)

# Bytes of log messages.
RUBY_MESSAGES = _values(4, 10, 12, 39, 79, 138, 227, 319, 501, 674, 1675, 5141)
SUBVERSION_MESSAGES = _values(4, 40, 60, 109, 207, 423, 800, 1157, 1816, 2427, 4643, 9297)
HTTPD_MESSAGES = _values(3, 17, 22, 40, 78, 150, 262, 365, 513, 683, 1522, 4003)
KDELIBS_MESSAGES = _values(2, 12, 17, 31, 58, 121, 230, 329, 512, 726, 3075, 8000)

# Bytes that an entry adds to ruby's ChangeLog.
JOURNAL_ENTRIES = Quantiles(
    (0, 40), (0.05, 75), (0.1, 109), (0.25, 135), (0.5, 174), (0.75, 236), (0.9, 368),
    (0.95, 488), (0.98, 820), (0.99, 1007), (1, 2343),
)  # fmt: skip

# Seconds from one revision of ruby to the next.
GAPS = _values(0, 4, 9, 256, 1907, 9587, 30277, 52749, 87620, 135031, 513786, 2958204)
