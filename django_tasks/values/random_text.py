"""Random letters and digits, for numbers and marks that nobody else has. No Django."""

from os import urandom
from string import ascii_letters, digits

_ALPHABET = (ascii_letters + digits).encode()
# One letter for each byte: four or five bytes share one.
_LETTERS = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))


def random_text(length: int) -> str:
    """So many letters and digits, 5.9 bits each, from the system's source of randomness.

    One system call; ``django.utils.crypto.get_random_string`` makes one for each letter, which was
    40 % of the time of a bulk add.
    """
    return urandom(length).translate(_LETTERS).decode()
