"""Random letters and digits."""

from string import ascii_letters, digits

from django_tasks.values.keys import random_text


def test_it_has_letters_and_digits_only_and_all_of_them() -> None:
    assert set(random_text(100_000)) == {*ascii_letters, *digits}


def test_it_is_as_long_as_was_asked_for_and_never_the_same() -> None:
    texts = {random_text(22) for _ in range(10_000)}
    assert len(texts) == 10_000
    assert {len(text) for text in texts} == {22}


def test_no_letter_is_much_more_frequent_than_another() -> None:
    text = random_text(620_000)  # 10,000 of each; of eight of them a quarter more
    assert all(9_000 < text.count(letter) < 13_000 for letter in ascii_letters + digits)
