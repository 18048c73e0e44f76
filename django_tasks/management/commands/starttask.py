"""``manage.py starttask``: arguments → configs → workers."""

import argparse
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import autoreload

import django_tasks
from django_tasks import conf, installation, logs, requirements
from django_tasks.handlers import registry
from django_tasks.models import Task
from django_tasks.supervisor.processes import fitting_processes, run_process, run_processes
from django_tasks.supervisor.recycling import Recycling
from django_tasks.worker.config import WorkerConfig, worker_config
from django_tasks.worker.embedded import start_worker, wait_for_workers

LEVELS = {0: logging.WARNING, 1: logging.INFO}
# How many names of queues or codes the introduction lists.
MOST_NAMES = 20


class Command(BaseCommand):
    help = (
        "Run due tasks until stopped. SIGTERM or Ctrl-C: claim no more, let what runs end, exit."
        " A second one, after a second or later, ends at once."
    )
    # The checks that matter here are made below, each with one sentence.
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # A flag that is nearly another one is not to be taken for it: --queue for --queues.
        return super().create_parser(prog_name, subcommand, **{"allow_abbrev": False, **kwargs})

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--threads", type=_option("THREADS"), metavar="N", help="handlers that run at once")
        add("--processes", type=_option("PROCESSES"), metavar="N", help="child processes")
        add("--queues", type=_names, metavar="A,B", help="only tasks in these queues")
        add("--codes", type=_names, metavar="X,Y", help="only tasks of these biz_codes")
        add("--batch-size", type=_option("BATCH_SIZE"), metavar="N", help="most rows a statement")
        add("--poll-interval", type=_option("POLL_INTERVAL"), metavar="SECONDS")
        add("--lease", type=_option("LEASE"), metavar="SECONDS", help="believed alive so long")
        add("--database", type=_names, metavar="ALIAS", help="where the tasks are; may be A,B")
        add("--until-empty", action="store_true", help="end when nothing is due and nothing runs")
        add("--max-tasks", type=_count, metavar="N", help="end after N tasks a process")
        add("--max-tasks-per-child", type=_count, metavar="N", help="replace a child after N tasks")
        add("--max-memory-per-child", type=_count, metavar="MB", help="replace one that holds more")
        add("--shutdown-timeout", type=_option("SHUTDOWN_TIMEOUT"), metavar="SECONDS")
        add("--reload", action="store_true", help="start again when code changes; to develop with")

    def handle(self, *args: Any, **options: Any) -> None:
        _refuse_clash()
        _refuse_place()
        configs, processes = _configs(options)
        recycling = Recycling(options["max_tasks_per_child"], options["max_memory_per_child"])
        _refuse_missing_handlers(configs[0])
        _refuse_unfit_databases(configs)
        _refuse_missing_tables(configs)
        if not _is_watching(options["reload"]):
            self._introduce(configs, processes, options["verbosity"])
        if options["reload"]:
            autoreload.run_with_reloader(_run_reloading, configs)
        elif code := _run(configs, processes, recycling):
            sys.exit(code)

    def _introduce(self, configs: list[WorkerConfig], processes: int, verbosity: int) -> None:
        """Say what is served: where the log goes, or in plain text before a log for people."""
        sentence = _introduction(configs, processes)
        if not _show_log(verbosity):
            logs.introduced(sentence)
        elif verbosity and sys.stdout is not None:  # None where it was closed
            self.stdout.write(sentence)
            self.stdout.flush()
        known = {handler.queue for handler in registry.get_task_handlers().values()}
        for queue in configs[0].queues:
            if queue not in known:
                logs.strange_queue(queue)


def _run(configs: list[WorkerConfig], processes: int, recycling: Recycling) -> int:
    # A run without end can cost a process only where another one takes its place.
    if processes == 1 and not recycling and not registry.killing(configs[0].codes):
        return run_process(configs)
    return run_processes(configs, processes, recycling)


def _run_reloading(configs: list[WorkerConfig]) -> None:
    # The reloader runs this outside the main thread and ends the process itself: what runs then
    # is given its time at exit.
    for config in configs:
        start_worker(config)
    wait_for_workers()


# Arguments


def _option(name: str) -> Callable[[str], Any]:
    """Convert a flag as the setting of that name would be."""

    def parse(text: str) -> Any:
        try:
            number: float = int(text) if text.lstrip("+-").isdigit() else float(text)
            return conf.convert(name, number)
        except (TypeError, ValueError) as error:
            reason = str(error) if str(error).startswith("must") else "must be a number"
            raise argparse.ArgumentTypeError(f"{reason}, not {text!r}") from None

    return parse


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"must be names with commas between, not {text!r}")
    return names


def _configs(options: dict[str, Any]) -> tuple[list[WorkerConfig], int]:
    """A config for each database, and the number of processes."""
    try:
        wishes = conf.options()
    except conf.ConfigurationError as error:
        raise CommandError(str(error), returncode=2) from None
    aliases = options["database"] or (router.db_for_write(Task),)
    for alias in aliases:
        if alias not in connections:
            raise _usage(f"--database {alias}: there is only {', '.join(connections)}")
    processes = _processes(options, wishes.processes, aliases)
    children = processes > 1 or options["max_tasks_per_child"] or options["max_memory_per_child"]
    if options["reload"] and children:
        raise _usage("--reload works with one process only")
    given = {
        name: options[name]
        for name in (
            "threads",
            "queues",
            "codes",
            "batch_size",
            "poll_interval",
            "lease",
            "until_empty",
            "max_tasks",
            "shutdown_timeout",
        )
        if options[name] is not None
    }
    return [worker_config(alias, **given) for alias in aliases], processes


def _processes(options: dict[str, Any], wish: int | None, aliases: tuple[str, ...]) -> int:
    if asked := options["processes"] or wish:
        return int(asked)
    # Who reloads or counts tasks means one process.
    is_one = options["reload"] or options["max_tasks"] is not None
    return 1 if is_one else fitting_processes(aliases)


def _usage(sentence: str) -> CommandError:
    return CommandError(sentence, returncode=2)


# What must be right before anything starts


def _refuse_clash() -> None:
    if clash := installation.clash():
        raise CommandError(f"({installation.CHECK_ID}) {clash} {installation.CURE}")


def _refuse_place() -> None:
    """Raise CommandError where workers could not see the tasks, or signals could not be heard."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            raise CommandError(
                f"starttask cannot run inside a transaction (there is one on {connection.alias}):"
                " its workers have connections of their own and see nothing of it; call it outside"
                " of atomic(), in tests from a TransactionTestCase."
            )
    if threading.current_thread() is not threading.main_thread():
        raise CommandError(
            "starttask runs in the main thread only, for it listens to signals; use"
            " django_tasks.api.start() to run a worker inside another program."
        )


def _refuse_missing_handlers(config: WorkerConfig) -> None:
    if problems := registry.problems():
        raise CommandError("\n".join(["Handlers that cannot be registered:", *problems]))
    known = sorted(registry.get_task_handlers())
    if not known:
        raise _usage(
            "There is no handler: name some in settings.TASK_HANDLERS, or define them in a"
            " task_handlers.py of an installed app."
        )
    if missing := sorted(set(config.codes) - set(known)):
        raise _usage(f"--codes {', '.join(missing)}: there is only {', '.join(known)}")


def _refuse_unfit_databases(configs: list[WorkerConfig]) -> None:
    for config in configs:
        if problem := requirements.refusal(config.using):
            raise CommandError(problem)
        if problem := requirements.memory_problem(config.using):
            logs.unfit_database(problem)


def _refuse_missing_tables(configs: list[WorkerConfig]) -> None:
    for config in configs:
        try:
            missing = _missing_columns(connections[config.using])
        except Error:
            continue  # the database is down: the worker says so, and starts when it is back
        finally:
            connections[config.using].close()
        if missing:
            raise CommandError(
                f"The tables of django_tasks in database {config.using} are not those of this"
                f" version ({', '.join(missing)} missing): run manage.py migrate --database"
                f" {config.using}"
            )


def _missing_columns(connection: BaseDatabaseWrapper) -> list[str]:
    """Tables that a worker needs and that are not there, and columns, as ``table.column``."""
    missing = []
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        for model in apps.get_app_config("django_tasks").get_models():
            table = model._meta.db_table
            if table not in tables:
                missing.append(table)
                continue
            described = connection.introspection.get_table_description(cursor, table)
            there = {column.name for column in described}
            missing += [
                f"{table}.{field.column}"
                for field in model._meta.concrete_fields
                if field.column not in there
            ]
    return missing


# What a person sees


def _is_watching(is_reloading: bool) -> bool:
    """Tell if this process only watches over the one that runs the tasks, and reloads it."""
    return is_reloading and os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) != "true"


class _Printer(logging.StreamHandler):  # type: ignore[type-arg]  # not generic where it runs
    """Prints the log for people, where the project has said nothing about it."""


def _show_log(verbosity: int) -> bool:
    """Print the package's log; False if the project has configured where it goes."""
    logger = logging.getLogger("django_tasks")
    if not any(isinstance(handler, _Printer) for handler in logger.handlers):
        if logger.hasHandlers():
            return False
        handler = _Printer()
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(processName)s: %(message)s")
        )
        logger.addHandler(handler)
    logger.setLevel(LEVELS.get(verbosity, logging.DEBUG))
    return True


def _introduction(configs: list[WorkerConfig], processes: int) -> str:
    places = ", ".join(f"{config.using} ({connections[config.using].vendor})" for config in configs)
    codes = configs[0].codes or sorted(registry.get_task_handlers())
    queues = configs[0].queues
    return (
        f"django_tasks {django_tasks.__version__}: {processes} x {configs[0].threads} threads on"
        f" {places}, {_list('queue', queues) if queues else 'all queues'},"
        f" {_list('handler', codes)}. Ctrl-C stops."
    )


def _list(noun: str, names: Sequence[str]) -> str:
    """Such as "2 queues (mail, push)"."""
    named = ", ".join(names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{len(names)} {noun}{'s' if len(names) != 1 else ''} ({named}{more})"
