"""The signs that stand beside a number for what its flags say."""

LOW_N = "low-n"
# The columns of a table that say whether a row is a difference.
JUDGED = ("call", "noise_floor", "detectable")

# By flag, in the order in which they stand.
MARKS = {"same-binaries": "=", "off-20": "\N{DOUBLE DAGGER}", "off-10": "\N{DAGGER}", LOW_N: "?"}
LEGEND = {
    MARKS["same-binaries"]: "the same binaries under two names (A/A)",
    MARKS["off-10"]: "a run is more than 10 % from its cell's median",
    MARKS["off-20"]: "a run is more than 20 % from its cell's median",
    MARKS[LOW_N]: "fewer than 5 rounds",
}
