"""Names of the parameters of a test, by which it can be asked for in another process."""


def named(value: object, longest: int = 25) -> str:
    """The value in ASCII, without what is another text in the next process, its address.

    Without backslashes, too: pytest escapes them once more each time that it runs in one process.
    """
    return ascii(value).partition(" at 0x")[0].replace("\\", "/")[:longest]
