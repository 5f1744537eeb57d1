"""What the user did wrong, in one sentence."""


class UserError(Exception):
    """A mistake that the user can mend: the message names the file, the key and the remedy."""
