"""Fixtures that the stations of the walk need."""

from tests.doors.conftest import boss as boss
from tests.importers.conftest import fresh as fresh
from tests.importers.conftest import old as old
