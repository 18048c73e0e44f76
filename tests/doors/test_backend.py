"""On Django 5.2, which has no tasks framework, the door to it says so."""

import sys
from importlib import import_module

import django
import pytest
from django.core.exceptions import ImproperlyConfigured

BACKEND = "django_tasks.backend"


def test_on_django_5_2_the_backend_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django, "VERSION", (5, 2, 0, "final", 0))
    # As in a process that has not imported it: with a newer Django others have.
    monkeypatch.delitem(sys.modules, BACKEND, raising=False)
    with pytest.raises(ImproperlyConfigured) as refusal:
        import_module(BACKEND)
    said = str(refusal.value)
    assert said.startswith("django_tasks.backend needs Django 6.0")
    assert "add_task() and TaskHandler work on every Django" in said
    assert BACKEND not in sys.modules
