"""Make the page and its pictures of what a run wrote down.

python -m benchmarks.report RESULTS.json [--page docs/understand/benchmarks.rst]
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import CATALOGUE, FUNCTIONS
from benchmarks.pictures import draw
from benchmarks.plan import PLAN
from benchmarks.rst import heading, table, wrapped
from benchmarks.table import COLUMNS, PEERS, TITLES, Results, Who, by_database, number, spread
from benchmarks.targets import Verdict, verdicts

CHECKOUT = Path(__file__).resolve().parents[1]

INTRODUCTION = """\
==========
Benchmarks
==========

How fast, how late and how costly ``django_tasks`` is, beside

* **the floor**: the raw driver with the fewest statements that the work needs, and nothing else;
* **the seed design**: a periodic poller that takes rows one by one, as such apps are often written;
* **neighbours** that install from PyPI and npm, each in its best sensible configuration.

Everybody took turns on the same servers, in an empty database each time. Numbers are medians over
the rounds, with the least and the greatest; shares of somebody else's number are taken within a
round, so that whatever else the machine did befell both. A task does nothing but write down when it
started, into a file that is mapped into memory.

{facts}

.. not run: it takes hours

.. code-block:: shell

    make benchmark          # all of it; hours
    make benchmark-quick    # the same in small, in a few minutes

The numbers are in `{source} <../../{source}>`_. No test depends on any of them.

.. contents::
   :local:
"""

TEXTS = {
    "drain": (
        "Draining a backlog",
        "Due tasks that do nothing, from the start of the first one until the queue is empty, as"
        " seen from outside; the start of the processes is left out for everybody. The slow"
        " contenders get fewer tasks, and those that no target is about fewer rounds.",
    ),
    "enqueue": (
        "Adding",
        "Tasks for tomorrow, by one process: in bulk, in the best way that the contender has, and"
        " one by one with a commit each.",
    ),
    "lateness": (
        "Lateness",
        "Start minus due time of tasks of the future, at random times, on an idle worker. The"
        " picture shows how many had started after how long.",
    ),
    "pickup": (
        "Pick-up",
        "From before the call that adds a task for now, in another process, to its start.",
    ),
    "idle": (
        "Idle cost",
        "A worker with one task for tomorrow in its queue: ours for a minute, others for half of"
        " one. On SQLite only our own workers can be asked for their statements.",
    ),
    "functions": (
        "Functions of Django's tasks framework",
        "A backlog of calls of one ``@task`` function that does nothing, on Django 6 and three"
        " database backends of its framework; each keeps the result of every call. The rate is"
        " that of a drain. The slow contenders get fewer calls.",
    ),
    "function-calls": (
        "Enqueueing functions",
        "Calls of the same function for tomorrow, by one process: in bulk, in the best way that the"
        " backend has, and by ``enqueue()`` one by one with a commit each.",
    ),
    "history": (
        "What a history costs",
        "The drain once more, as it is by default (the history keeps problems, and these tasks have"
        " none) and with a line for every run.",
    ),
    "work": (
        "Useful work",
        "Each task cancels an order by one UPDATE: by itself in autocommit, by itself and"
        " ``atomic``, or 500 of them by one call, ``atomic`` as well. The floor in batches is one"
        " connection with two transactions for 500 tasks; one by one it is eight connections with"
        " a transaction for each task.",
    ),
    "claim": (
        "Claim time against table size",
        "The statements of a claim in a real worker, median. Flat is what is wanted.",
    ),
    "processes": ("Processes", "The same drain with more processes, on {cores} cores."),
    "waste": (
        "Wasted reads",
        "Candidates that a process read and another one took first. PostgreSQL and SQLite take what"
        " they read in one statement.",
    ),
    "handlers": (
        "Handlers that do something",
        "Ten milliseconds and one query each, on 32 threads, beside 32 threads that call the same"
        " function without any queue.",
    ),
    "blocking": (
        "The short beside the long",
        "Tasks of a millisecond, while three quarters of all threads of two workers have tasks of"
        " up to a minute.",
    ),
    "long": (
        "Long drains",
        "Very many tasks: the rate at the end against that at the start, and the memory of the"
        " worker.",
    ),
    "held": (
        "Drains under a held snapshot",
        "The same while another session has a transaction open from before: a dump, a report, a"
        " forgotten session. Nothing that was deleted since can be cleaned up then.",
    ),
    "lanes": (
        "Lateness in many lanes",
        "A lane is a queue, a priority and a code: a queue for each customer makes many. In 10"
        " lanes, in 2,000, and in 10 beside 700 that were left, whose rows another session's"
        " snapshot keeps. In each lane a task waits for tomorrow.",
    ),
    "busy": (
        "Lateness in a busy hour",
        "Tasks that fall due at a steady 5,000 a second, all of them added meanwhile; one in ten"
        " comes again, one in a hundred fails and is tried again, twenty schedules fire each"
        " second. Before it a backlog of as many was run. First without, then under a snapshot"
        " that is older than that backlog.",
    ),
}


def main() -> None:
    options = _options()
    record = json.loads(options.results.read_text(encoding="utf-8"))
    results = Results(record)
    pictures = options.page.parent.parent / "pictures"
    drawn = draw(results, pictures)
    source = options.results.resolve()
    name = source.relative_to(CHECKOUT) if source.is_relative_to(CHECKOUT) else source.name
    text = "\n\n".join(_parts(results, drawn, str(name)))
    options.page.write_text(text.rstrip() + "\n", encoding="utf-8")


def _parts(results: Results, drawn: dict[str, str], source: str) -> Iterator[str]:
    yield INTRODUCTION.format(facts=_facts(results), source=source)
    yield from _taken_over(results)
    yield from _targets(list(verdicts(results)))
    yield from _losses(results)
    for item in PLAN:
        if results.who(item.measure):
            yield from _measure(results, item.measure, drawn)
    yield from _configurations(results)
    yield from _left_out(results)


def _facts(results: Results) -> str:
    record = results.record
    databases = [f"{TITLES[name]} {version}" for name, version in record["databases"].items()]
    sizes = {
        turn["measure"]: turn["tasks"] for turn in record["turns"] if turn["contender"] == "ours"
    }
    amounts = ", ".join(f"{measure} {tasks:,}" for measure, tasks in sizes.items())
    commit = f", commit {record['commit']}" if record.get("commit") else ""
    loads = [turn["load"] for turn in record["turns"] if "other_run" not in turn]
    return wrapped(
        f"This run: {record['when'][:10]}{commit}, size *{record['size']}*, {record['cores']} cores"
        f" ({record['machine']}) shared by workers, clients and servers, which were given their"
        f" default settings; Python {record['python']}, {', '.join(databases)}. Tasks: {amounts}."
        f" Load average before the turns: {min(loads):.1f} to {max(loads):.1f}."
    )


def _taken_over(results: Results) -> Iterator[str]:
    """Tell which measures are of this run, if others were taken over from another one."""
    others = {measure: results.other_run(measure) for measure in results.measures()}
    if any(others.values()):
        own = ", ".join(TEXTS[measure][0].lower() for measure, run in others.items() if not run)
        yield wrapped(
            f"Of this run are only: {own}. Each other section names its run. Machines differ:"
            " compare within a section."
        )


# The parts of the page


def _targets(found: Sequence[Verdict]) -> Iterator[str]:
    if not found:
        return
    yield heading("What was to be reached")
    databases = [name for name in TITLES if any(each.database == name for each in found)]
    rows = []
    for target in dict.fromkeys(each.target.title for each in found):
        cells = {each.database: str(each) for each in found if each.target.title == target}
        rows.append([target, *(cells.get(name, "-") for name in databases)])
    yield table(["what", *(TITLES[name] for name in databases)], rows)


def _losses(results: Results) -> Iterator[str]:
    """Wherever somebody but the floor has a better median than ours on the same database."""
    yield heading("What we lose at")
    lines = [line for measure in results.measures() for line in _lost(results, measure)]
    yield "\n".join(lines) if lines else "Nothing in this run."


def _lost(results: Results, measure: str) -> Iterator[str]:
    for database in TITLES:
        own = Who(database, "ours-tasks" if measure in FUNCTIONS else "ours")
        for column in COLUMNS.get(measure, ()):
            mine = results.median(measure, own, column.name)
            if mine is None:
                continue
            for who in results.who(measure, database):
                theirs = results.median(measure, who, column.name)
                is_ours = who.contender.startswith("ours")
                if is_ours or (who.contender in PEERS and who.contender != "seed"):
                    continue
                if theirs is not None and (theirs > mine if column.up else theirs < mine):
                    title = TEXTS[measure][0]
                    yield (
                        f"* {title}, {column.title}, {TITLES[database]}: {who.title}"
                        f" {number(theirs)}, ours {number(mine)}"
                    )


def _measure(results: Results, measure: str, drawn: dict[str, str]) -> Iterator[str]:
    title, words = TEXTS[measure]
    yield heading(title)
    yield wrapped(words.format(cores=results.record["cores"]))
    if run := results.other_run(measure):
        yield wrapped(f"These numbers are of another run, that of {run}.")
    if measure in drawn:
        yield f".. image:: ../pictures/{drawn[measure]}\n   :alt: {title}: the table below"
    yield _claim_table(results) if measure == "claim" else _numbers(results, measure)


def _numbers(results: Results, measure: str) -> str:
    people = [who for each in by_database(results.who(measure)).values() for who in each]
    columns = [
        column
        for column in COLUMNS[measure]
        if any(results.values(measure, who, column.name) for who in people)
    ]
    peers = [name for name in PEERS if any(who.contender == name for who in people)]
    heads = ["database", "contender"]
    for column in columns:
        heads += [column.title, *(PEERS[name] for name in peers if column.up)]
    rows = []
    for who in people:
        row = [TITLES[who.database], who.title]
        for column in columns:
            values = results.values(measure, who, column.name)
            middle = results.median(measure, who, column.name)
            row.append(
                f"{number(middle)} {f'({spread(values)})' if len(values) > 1 else ''}".strip()
            )
            shares = results.peers(measure, who, column.name)
            row += [number(shares.get(name)) for name in peers if column.up]
        rows.append(row)
    return table(heads, rows)


def _claim_table(results: Results) -> str:
    titles = {
        "claim": "claim, beside so many future rows",
        "look": "look that finds nothing, beside so many future rows",
        "due": "claim, so many due rows",
        "lanes": "claim, so many lanes",
        "unknown": "claim, beside so many due rows of an unknown code",
    }
    rows = []
    for who in results.who("claim"):
        (turn, *_) = results.turns("claim", who)
        for fact, title in titles.items():
            cells = [f"{int(size):,}: {number(value)}" for size, value in turn[fact].items()]
            rows.append([TITLES[who.database], title, ", ".join(cells)])
    return table(["database", "what", "milliseconds"], rows)


def _configurations(results: Results) -> Iterator[str]:
    yield heading("Who took part, and how")
    rows = []
    for name in CATALOGUE:
        cells = (
            [name, turn["settings"], _versions(turn), turn.get("caveat", "-")]
            for turn in results.record["turns"]
            if turn["contender"] == name and "settings" in turn
        )
        rows += [list(each) for each in dict.fromkeys(map(tuple, cells))]
    promise = "what it does not promise, in its own words"
    yield table(["contender", "configuration", "versions", promise], rows)


def _versions(turn: dict[str, Any]) -> str:
    return ", ".join(f"{what} {which}" for what, which in turn["versions"].items()) or "-"


def _left_out(results: Results) -> Iterator[str]:
    failures = results.failures()
    took_part = {turn["contender"] for turn in results.record["turns"]}
    absent = [name for name in CATALOGUE if name not in took_part]
    if not failures and not absent:
        return
    yield heading("Who did not")
    lines = [f"* {name}: not asked in this run, or its server is not installed" for name in absent]
    lines += [
        f"* {contender}, {measure} on {TITLES[database]}: {reason}"
        for (database, measure, contender), reason in failures.items()
    ]
    yield "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument(
        "--page", type=Path, default=CHECKOUT / "docs" / "understand" / "benchmarks.rst"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
