"""Rules for a key, a queue and a priority, the same for every database; random keys. No Django."""

from os import urandom
from string import ascii_letters, digits
from uuid import UUID

from django_tasks.exceptions import TaskTypeError, TaskValueError
from django_tasks.sentences import CONTROLS
from django_tasks.sentences import sentence as _
from django_tasks.values.amounts import whole_number

BIZ_CODE_LENGTH = 50
BIZ_NUM_LENGTH = 100
QUEUE_LENGTH = 50
NAME_LENGTH = 200
# Of an int that can be a number: Python refuses to write very long ones.
MOST_BITS = 400
LOCK_NAME_LENGTH = 100
PRIORITIES = range(-32_768, 32_768)  # a smallint everywhere
# The number under which a handler's own schedule has its row.
SCHEDULE_NUM = "@schedule"
DEFAULT_QUEUE = "default"
_LOCKS = f"{SCHEDULE_NUM}:"


def check_key(field: str, value: object, longest: int) -> str:
    """``value`` if it can be (part of) a key; TaskTypeError or TaskValueError if not.

    Surrounding blanks are refused because MariaDB and MySQL take 'a' and 'a ' for one key.
    """
    if type(value) is str and _is_plain(value) and len(value) <= longest:
        return value
    text = check_text(field, value, longest)
    if text != text.strip():
        raise TaskValueError(field, value, _("must not begin or end with blanks"))
    return text


def check_number(value: object) -> str:
    """``biz_num`` as callers have it: a text, or an int or UUID that is taken as its text.

    None is refused: it is the pk of an object that was never saved.
    """
    if type(value) is not str:
        if value is None:
            raise TaskTypeError(
                "biz_num", value, _("is missing (an object that was never saved has none)")
            )
        if isinstance(value, UUID):
            value = str(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            value = str(int(value)) if value.bit_length() < MOST_BITS else "0" * 1000
        elif not isinstance(value, str):
            raise TaskTypeError(
                "biz_num",
                value,
                _("must be a string, an int or a UUID, not %(name)s", name=type(value).__name__),
            )
    return check_key("biz_num", value, BIZ_NUM_LENGTH)


def check_name(value: object, field: str = "name") -> str:
    """A name for people, perhaps empty."""
    return "" if value == "" else check_text(field, value, NAME_LENGTH)


def _is_plain(text: str) -> bool:
    """Tell if only the length is left to check; asked in a third of the time."""
    return text != "" and text.isascii() and text.isprintable() and text == text.strip()


def check_text(field: str, value: object, longest: int) -> str:
    """``value`` as plain text, if it is one that every database can store and compare."""
    if not isinstance(value, str):
        raise TaskTypeError(
            field, value, _("must be a string, not %(name)s", name=type(value).__name__)
        )
    if not value:
        raise TaskValueError(field, value, _("must not be empty"))
    if len(value) > longest:
        raise TaskValueError(
            field,
            value,
            _(
                "is %(length)s characters long, more than the limit of %(longest)s",
                length=len(value),
                longest=longest,
            ),
        )
    if "\0" in value:
        raise TaskValueError(field, value, _("must not contain NUL characters"))
    if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise TaskValueError(field, value, _("must not contain lone surrogates"))
    return value if type(value) is str else str.__str__(value)  # TextChoices are texts as well


def check_new(field: str, text: str) -> str:
    """``text`` if something new may be called so; rows of old may have control characters."""
    if not text.isprintable() and CONTROLS.search(text):
        raise TaskValueError(field, text, _("must not contain control characters"))
    return text


def check_priority(value: object) -> int:
    """``value`` if it is a whole number that a smallint can hold."""
    return whole_number("priority", value, PRIORITIES[0], PRIORITIES[-1])


def lock_of(biz_code: str) -> str:
    """The name of the lock that the active worker of a sticky handler holds."""
    return f"{_LOCKS}{biz_code}"


def check_lock_name(value: object) -> str:
    """A name for a lock of the project's own that is to be taken."""
    name = check_new("name", check_key("name", value, LOCK_NAME_LENGTH))
    if name.startswith(_LOCKS):
        raise TaskValueError("name", name, _("belongs to the active worker of a sticky handler"))
    return name


_ALPHABET = (ascii_letters + digits).encode()
# One letter for each byte: four or five bytes share one.
_LETTERS = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))


def random_text(length: int) -> str:
    """So many letters and digits, 5.9 bits each, from the system's source of randomness.

    One system call; ``django.utils.crypto.get_random_string`` makes one for each letter, which was
    40 % of the time of a bulk add.
    """
    return urandom(length).translate(_LETTERS).decode()
