"""Fixtures that the stations of the walk need."""

from tests.coming.conftest import fresh as fresh
from tests.coming.conftest import old as old
from tests.doors.conftest import boss as boss
