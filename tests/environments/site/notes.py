"""Lines that processes write into one file, each in one piece."""

import os


def note(what: str) -> None:
    """Write down the process and ``what`` it did."""
    notes = os.open(os.environ["SITE_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(notes, f"{os.getpid()} {what}\n".encode())
    finally:
        os.close(notes)
