"""Define the hooks of a repository: programs that the server runs before and after a commit."""

# The values of the axis `hooks`, without `none`.
HOOKS = ("shell", "python")


def why_no_hooks() -> str:
    """Return why hooks cannot be measured on this machine, in a clause; "" if they can."""
    return "vcsbench cannot run hooks yet"
