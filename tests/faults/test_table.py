import csv

from devtools import CHECKOUT
from tests.faults.stage import Size
from tests.faults.table import ALL_ZEROS, Row, Table
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
    assert table.broken(5) == []


def test_the_page_claims_zeros_only_where_all_are():
    good, bad = Table(), Table()
    good.add("3", [Row("sqlite", "nothing", Verdict())])
    bad.add("3", [Row("sqlite", "nothing", Verdict()), Row("sqlite", "mixed", STUCK)])
    assert ALL_ZEROS in good.page(1, Size())
    assert ALL_ZEROS not in bad.page(1, Size())
    assert "Not zero although promised: mixed (SQLite)." in bad.page(1, Size())


def test_the_page_that_is_published_claims_what_its_rows_show():
    page = (CHECKOUT / "docs" / "understand" / "reliability.rst").read_text(encoding="utf-8")
    rows = [row for row in csv.reader(line.strip() for line in page.splitlines()) if len(row) == 14]
    promised = [row for row in rows if row[0] != "fault" and "no zeros are promised" not in row[0]]
    assert len(promised) > 50
    assert [row[0] for row in promised if set(row[3:10]) != {"0"}] == []
    assert ALL_ZEROS in " ".join(page.split())
