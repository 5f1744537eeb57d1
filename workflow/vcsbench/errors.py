"""What the user did wrong, in one sentence."""


class UserError(Exception):
    """A mistake that the user can mend: the message names the file, the key and the remedy."""


class ChangedError(UserError):
    """A subject of a measurement is not as it was made. It is not looked at again."""
