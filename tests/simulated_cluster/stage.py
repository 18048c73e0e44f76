"""The parts of the present play. One process plays one seed, so there is one of each.

The product's modules reach their clocks, threads and connections through globals; so do their
simulated counterparts.
"""

from typing import TYPE_CHECKING

from tests.simulated_cluster.choices import Choices
from tests.simulated_cluster.scheduler import Scheduler

if TYPE_CHECKING:
    from tests.simulated_cluster.database import Database
    from tests.simulated_cluster.journal import Journal
    from tests.simulated_cluster.weather import Weather

scheduler: Scheduler
choices: Choices
database: "Database"
journal: "Journal"
weather: "Weather"
# Whether claims are made as on MariaDB and MySQL: read, then change what has not moved since.
is_optimistic = False
# Whether rows are also read before they are deleted, as on MySQL.
is_mysql = False
