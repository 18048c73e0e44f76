"""An app, so that its handlers are found."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "benchmarks.pages"
