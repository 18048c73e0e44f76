"""Which database this run is about."""

from django.conf import settings

VENDOR = settings.DATABASES["default"]["ENGINE"].rpartition(".")[2]
ON_SQLITE = VENDOR == "sqlite3"
