from tests.faults.table import Row, Table
from tests.faults.verdicts import Accusation, Verdict

STUCK = Verdict(accusations=[Accusation("stuck", "a row"), Accusation("lost", "an add")])


def test_the_last_lines_name_each_row_that_broke_a_promise():
    table = Table()
    table.add("3", [Row("sqlite", "nothing", Verdict()), Row("sqlite", "mixed", STUCK)])
    heading, first = table.broken(1)
    assert heading.startswith("sqlite, mixed")
    assert first == "  stuck: a row"


def test_a_row_without_promises_is_not_broken():
    table = Table()
    table.add("15", [Row("asynchronous standby", "primary lost", STUCK, promised=False)])
    assert not table.is_broken
    assert table.broken(5) == []
