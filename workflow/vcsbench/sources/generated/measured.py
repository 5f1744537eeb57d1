"""Distributions that were measured on public histories.

docs/generated-model.md says on which, how, and how well the generated histories keep to them. Each
table reads: at this share of the cases, the value is so much or less.
"""

from __future__ import annotations

from vcsbench.sources.generated.quantiles import Quantiles

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
RUBY_FILES = Quantiles(
    (0, 0), (0.05, 88), (0.1, 172), (0.25, 472), (0.5, 1755), (0.75, 5953), (0.9, 16987),
    (0.95, 35890), (0.98, 95572), (0.99, 160755), (0.999, 754604), (1, 1500000),
)  # fmt: skip
SUBVERSION_FILES = Quantiles(
    (0, 0), (0.05, 888), (0.1, 1281), (0.25, 2362), (0.5, 5346), (0.75, 16261), (0.9, 46376),
    (0.95, 83632), (0.98, 186284), (0.99, 303743), (0.999, 879066), (1, 2011364),
)  # fmt: skip
HTTPD_FILES = Quantiles(
    (0, 9), (0.05, 131), (0.1, 225), (0.25, 494), (0.5, 4744), (0.75, 12436), (0.9, 25884),
    (0.95, 40217), (0.98, 64404), (0.99, 88826), (0.999, 205147), (1, 213860),
)  # fmt: skip
KDELIBS_FILES = Quantiles(
    (0, 0), (0.05, 32), (0.1, 41), (0.25, 660), (0.5, 2135), (0.75, 5503), (0.9, 13977),
    (0.95, 25281), (0.98, 46066), (0.99, 59584), (0.999, 185789), (1, 2952854),
)  # fmt: skip

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
RUBY_HEAT = Quantiles(
    (0, 0), (0.114, 0.001), (0.266, 0.005), (0.36, 0.01), (0.465, 0.02), (0.603, 0.05),
    (0.708, 0.1), (0.816, 0.2), (0.944, 0.5), (1, 1),
)  # fmt: skip
SUBVERSION_HEAT = Quantiles(
    (0, 0), (0.011, 0.001), (0.071, 0.005), (0.123, 0.01), (0.194, 0.02), (0.337, 0.05),
    (0.48, 0.1), (0.644, 0.2), (0.845, 0.5), (1, 1),
)  # fmt: skip
KDELIBS_HEAT = Quantiles(
    (0, 0), (0.037, 0.001), (0.105, 0.005), (0.156, 0.01), (0.238, 0.02), (0.393, 0.05),
    (0.533, 0.1), (0.695, 0.2), (0.904, 0.5), (1, 1),
)  # fmt: skip

# Bytes of log messages.
RUBY_MESSAGES = Quantiles(
    (0, 4), (0.05, 10), (0.1, 12), (0.25, 39), (0.5, 79), (0.75, 138), (0.9, 227), (0.95, 319),
    (0.98, 501), (0.99, 674), (0.999, 1675), (1, 5141),
)  # fmt: skip
SUBVERSION_MESSAGES = Quantiles(
    (0, 4), (0.05, 40), (0.1, 60), (0.25, 109), (0.5, 207), (0.75, 423), (0.9, 800),
    (0.95, 1157), (0.98, 1816), (0.99, 2427), (0.999, 4643), (1, 9297),
)  # fmt: skip
HTTPD_MESSAGES = Quantiles(
    (0, 3), (0.05, 17), (0.1, 22), (0.25, 40), (0.5, 78), (0.75, 150), (0.9, 262), (0.95, 365),
    (0.98, 513), (0.99, 683), (0.999, 1522), (1, 4003),
)  # fmt: skip
KDELIBS_MESSAGES = Quantiles(
    (0, 2), (0.05, 12), (0.1, 17), (0.25, 31), (0.5, 58), (0.75, 121), (0.9, 230), (0.95, 329),
    (0.98, 512), (0.99, 726), (0.999, 3075), (1, 8000),
)  # fmt: skip

# Bytes that an entry adds to ruby's ChangeLog.
JOURNAL_ENTRIES = Quantiles(
    (0, 40), (0.05, 75), (0.1, 109), (0.25, 135), (0.5, 174), (0.75, 236), (0.9, 368),
    (0.95, 488), (0.98, 820), (0.99, 1007), (1, 2343),
)  # fmt: skip

# Seconds from one revision of ruby to the next.
GAPS = Quantiles(
    (0, 0), (0.05, 4), (0.1, 9), (0.25, 256), (0.5, 1907), (0.75, 9587), (0.9, 30277),
    (0.95, 52749), (0.98, 87620), (0.99, 135031), (0.999, 513786), (1, 2958204),
)  # fmt: skip
