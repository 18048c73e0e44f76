"""``manage.py starttask``: arguments → configs → workers."""

import argparse
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import Error, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import autoreload
from django.utils.translation import gettext, ngettext, override

import django_tasks
from django_tasks import conf, installation, logs, requirements
from django_tasks.exceptions import TaskValueError
from django_tasks.handlers import finders, registry
from django_tasks.handlers.misspelt_names import slips
from django_tasks.host.stop_signals import held_back
from django_tasks.logs.patient import patiently
from django_tasks.management.base import OfLines, TranslatedCommand, usage
from django_tasks.management.output import Unread
from django_tasks.models import Task
from django_tasks.probes.answers import Page
from django_tasks.probes.ports import Address
from django_tasks.reads.words import listed
from django_tasks.sentences import said
from django_tasks.sentences import sentence as _
from django_tasks.store import tables
from django_tasks.store.connection import let_go, take_connection
from django_tasks.store.rejections import rejection_of
from django_tasks.supervisor.probing import CannotProbe, ProbeFlags, Probes
from django_tasks.supervisor.processes import fitting_processes, run_process, run_processes
from django_tasks.supervisor.recycling import Recycling
from django_tasks.worker.config import WorkerConfig, worker_config
from django_tasks.worker.embedded import start_worker, wait_for_workers

LEVELS = {0: logging.WARNING, 1: logging.INFO}
# How many names of queues or codes the introduction lists.
MOST_NAMES = 20
PROBES = ("health_file", "health_port", "metrics_port")


class Command(TranslatedCommand):
    help = _(
        "Run due tasks until stopped. SIGTERM or Ctrl-C: claim no more, let what "
        "runs end, exit. A second one, after a second or later, ends at once."
    )
    # The checks that matter here are made below, each with one sentence.
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # A flag that is nearly another one is not to be taken for it: --queue for --queues.
        return super().create_parser(prog_name, subcommand, **{"allow_abbrev": False, **kwargs})

    def add_arguments(self, parser: CommandParser) -> None:
        for name, facts in (*_work(), *_ends(), *_probing()):
            parser.add_argument(name, **facts)
        words = gettext("start again when code changes; to develop with")
        parser.add_argument("--reload", action="store_true", help=words)

    @patiently  # else a log handler that hangs would hide each stop
    def handle(self, *args: Any, **options: Any) -> None:
        if not hasattr(os, "fork"):
            raise usage(gettext("Workers run on systems of POSIX: this one is another."))
        _refuse_clash()
        _refuse_place()
        # A stop that comes before signals are heeded, which is after the first line is said, waits
        # until then. Django's reloader heeds them itself.
        with nullcontext() if options["reload"] else held_back():
            self._start(options)

    def _start(self, options: dict[str, Any]) -> None:
        configs, processes = _configs(options)
        recycling = Recycling(options["max_tasks_per_child"], options["max_memory_per_child"])
        wishes = _probes(options, configs)
        _refuse_missing_handlers(configs[0])
        with _opened(wishes) as probes:
            self._run(configs, processes, recycling, probes, options)

    def _run(
        self,
        configs: list[WorkerConfig],
        processes: int,
        recycling: Recycling,
        probes: Probes,
        options: dict[str, Any],
    ) -> None:
        _refuse_unfit_databases(configs)
        _refuse_missing_tables(configs)
        if not _is_watching(options["reload"]):
            self._introduce(configs, processes, options["verbosity"])
        if options["reload"]:
            autoreload.run_with_reloader(_run_reloading, configs)
        elif code := _run(configs, processes, recycling, probes):
            sys.exit(code)

    def _introduce(self, configs: list[WorkerConfig], processes: int, verbosity: int) -> None:
        if not _show_log(verbosity):
            with override("en"):  # as the other lines of the log
                sentence = _introduction(configs, processes)
            logs.introduced(sentence, **_introduced_fields(configs, processes))
        elif verbosity and sys.stdout is not None:  # None where it was closed
            out = Unread(self.stdout, OSError)  # a full disk stops no tasks
            out.write(_introduction(configs, processes))
            out.flush()
        known = {handler.queue for handler in registry.get_task_handlers().values()}
        for queue in configs[0].queues:
            if queue not in known:
                logs.strange_queue(queue)
        for slip in slips():
            logs.strange_attribute(*slip)


def _run(configs: list[WorkerConfig], processes: int, recycling: Recycling, probes: Probes) -> int:
    is_alone = processes == 1 and not recycling and not probes.wishes.are_for_http
    # A run without end can cost a process only where another one takes its place.
    if is_alone and not registry.killing(configs[0].codes):
        return run_process(configs, pulse=probes.own_pulse(configs))
    if places := probes.places():
        logs.probes_answered(places)
    return run_processes(configs, processes, recycling, probes)


def _run_reloading(configs: list[WorkerConfig]) -> None:
    # The reloader runs this outside the main thread and ends the process itself: what runs then
    # is given its time at exit.
    for config in configs:
        start_worker(config)
    wait_for_workers()


# Arguments


Flags = Iterator[tuple[str, dict[str, Any]]]


def _flag(name: str, kind: Callable[[str], Any], metavar: str, words: str = "") -> Any:
    return name, {"type": kind, "metavar": metavar, "help": words or None}


def _work() -> Flags:
    at_once = gettext("handlers that run at once")
    yield _flag("--threads", _option("THREADS"), "N", at_once)
    yield _flag("--processes", _option("PROCESSES"), "N", gettext("child processes"))
    yield _flag("--queues", _names, "A,B", gettext("only tasks in these queues"))
    yield _flag("--codes", _names, "X,Y", gettext("only tasks of these biz_codes"))
    yield _flag("--batch-size", _option("BATCH_SIZE"), "N", gettext("most rows a statement"))
    yield _flag("--poll-interval", _option("POLL_INTERVAL"), "SECONDS")
    yield _flag("--lease", _option("LEASE"), "SECONDS", gettext("believed alive so long"))
    yield _flag("--database", _names, "ALIAS", gettext("where the tasks are; may be A,B"))


def _ends() -> Flags:
    words = gettext("end when nothing is due and nothing runs")
    yield "--until-empty", {"action": "store_true", "help": words}
    yield _flag("--max-tasks", _count, "N", gettext("end after N tasks a process"))
    yield _flag("--max-tasks-per-child", _count, "N", gettext("replace a child after N tasks"))
    yield _flag("--max-memory-per-child", _count, "MB", gettext("replace one that holds more"))
    yield _flag("--shutdown-timeout", _option("SHUTDOWN_TIMEOUT"), "SECONDS")


def _probing() -> Flags:
    yield _flag("--health-file", Path, "PATH", gettext("tell there if it is live and ready"))
    yield _flag("--health-port", _address, "[HOST:]PORT", gettext("answer /live and /ready"))
    yield _flag("--metrics-port", _address, "[HOST:]PORT", gettext("answer /metrics"))


def _refusal(words: str, text: str, **facts: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(words % {"text": text, **facts})


def _option(name: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            number: float = int(text) if text.lstrip("+-").isdigit() else float(text)
            return conf.convert(name, number)
        except (TypeError, ValueError) as error:
            words = said(error)
            reason = words if words.startswith("must") else gettext("must be a number")
            raise _refusal(gettext("%(reason)s, not %(text)r"), text, reason=reason) from None

    return parse


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise _refusal(gettext("must be a whole number from 1, not %(text)r"), text)
    return int(text)


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError:
        words = gettext("must be PORT or HOST:PORT with a port from 1 to 65535, not %(text)r")
        raise _refusal(words, text) from None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise _refusal(gettext("must be names with commas between, not %(text)r"), text)
    return names


def _configs(options: dict[str, Any]) -> tuple[list[WorkerConfig], int]:
    try:
        wishes = conf.options()
    except conf.ConfigurationError as error:
        raise usage(str(error)) from None
    aliases = options["database"] or (router.db_for_write(Task),)
    for alias in aliases:
        if alias not in connections:
            raise usage(
                gettext("--database %(alias)s: there is only %(connections)s")
                % {"alias": alias, "connections": listed(connections)}
            )
    processes = _processes(options, wishes.processes, aliases)
    children = processes > 1 or options["max_tasks_per_child"] or options["max_memory_per_child"]
    if options["reload"] and children:
        raise usage(gettext("--reload works with one process only"))
    if options["reload"] and any(options[name] is not None for name in PROBES):
        raise usage(gettext("--reload is for development: it answers no probes"))
    wanted = ((name, options.get(name)) for name in WorkerConfig.__dataclass_fields__)
    given = {name: value for name, value in wanted if value is not None}
    try:
        return [worker_config(alias, **given) for alias in aliases], processes
    except TaskValueError as error:
        raise usage(str(error)) from None


def _processes(options: dict[str, Any], wish: int | None, aliases: tuple[str, ...]) -> int:
    if asked := options["processes"] or wish:
        return int(asked)
    # Who reloads or counts tasks means one process.
    is_one = options["reload"] or options["max_tasks"] is not None
    return 1 if is_one else fitting_processes(aliases)


def _probes(options: dict[str, Any], configs: list[WorkerConfig]) -> ProbeFlags:
    page = None
    if options["metrics_port"] is not None:
        page = _page([config.using for config in configs])
    return ProbeFlags(**{name: options[name] for name in PROBES}, page=page)


def _page(aliases: Sequence[str]) -> Page:
    try:
        from django_tasks.metrics import metrics_page
    except conf.ConfigurationError as error:
        raise usage(str(error)) from None

    def page(accept: str) -> tuple[bytes, str]:
        try:
            made = metrics_page(accept, using=aliases, keep_connections=True)
            return made.body, made.content_type
        finally:
            connections.close_all()  # those of this thread, which ends

    return page


def _opened(wishes: ProbeFlags) -> Probes:
    try:
        return Probes.opened(wishes)
    except CannotProbe as refused:
        reason = refused.error.strerror or str(refused.error)
        raise usage(_("%(flag)s: %(reason)s", flag=refused.flag, reason=reason)) from None


# What must be right before anything starts


def _refuse_clash() -> None:
    if clash := installation.clash():
        raise CommandError(
            gettext("(%(check_id)s) %(clash)s %(cure)s")
            % {"check_id": installation.CHECK_ID, "clash": clash, "cure": installation.CURE}
        )


def _refuse_place() -> None:
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            raise CommandError(
                gettext(
                    "starttask cannot run inside a transaction (there is one on %(alias)s): "
                    "its workers have connections of their own and see nothing of it; call "
                    "it outside of atomic(), in tests from a TransactionTestCase."
                )
                % {"alias": connection.alias}
            )
    if threading.current_thread() is not threading.main_thread():
        raise CommandError(
            gettext(
                "starttask runs in the main thread only, for it listens to signals; use "
                "django_tasks.api.start() to run a worker inside another program."
            )
        )


def _refuse_missing_handlers(config: WorkerConfig) -> None:
    if refusal := finders.refusal():
        raise OfLines(*refusal)
    known = sorted(registry.get_task_handlers())
    if not known and not finders.are_there():
        raise usage(
            gettext(
                "There is no handler: name some in settings.TASK_HANDLERS, or define "
                "them in a task_handlers.py of an installed app."
            )
        )
    if missing := [code for code in config.codes if not _is_known(code, config.using)]:
        raise usage(
            gettext("--codes %(missing)s: there is only %(known)s")
            % {"missing": listed(missing), "known": listed(known)}
        )


def _is_known(biz_code: str, using: str) -> bool:
    try:
        return finders.is_found(biz_code, using=using)
    except Error:  # the database is down: the worker asks again
        return True


def _refuse_unfit_databases(configs: list[WorkerConfig]) -> None:
    for config in configs:
        if problem := requirements.refusal(config.using):
            raise CommandError(problem)
        if problem := requirements.memory_problem(config.using):
            logs.unfit_database(config.using, problem)


def _refuse_missing_tables(configs: list[WorkerConfig]) -> None:
    for config in configs:
        try:
            with _bounded(config) as connection:
                missing = tables.missing(connection)
        except Error as error:
            if rejection := rejection_of(error, using=config.using):
                raise CommandError(str(rejection.sentence(config.using))) from None
            continue  # the database is down: the worker says so, and starts when it is back
        if missing:
            raise CommandError(str(tables.sentence(missing, config.using)))


@contextmanager
def _bounded(config: WorkerConfig) -> Iterator[BaseDatabaseWrapper]:
    """A connection with bounded waits.

    A server that is gone without a word would hold up the start for minutes, while no probe is
    answered: a restart would follow, and another one.
    """
    before = connections[config.using]
    take_connection(config.using, config.poller_bounds)
    try:
        yield connections[config.using]
    finally:
        let_go(connections[config.using])
        connections[config.using] = before
        before.close()


# What a person sees


def _is_watching(is_reloading: bool) -> bool:
    return is_reloading and os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) != "true"


class _Printer(logging.StreamHandler):  # type: ignore[type-arg]  # not generic where it runs
    """Prints the log for people, where the project has said nothing about it."""


def _show_log(verbosity: int) -> bool:
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
    text = gettext("%(alias)s (%(vendor)s)")
    places = listed(
        text % {"alias": config.using, "vendor": connections[config.using].vendor}
        for config in configs
    )
    facts = _introduced_fields(configs, processes)
    queues = configs[0].queues
    return gettext(
        "django_tasks %(version)s: %(processes)s x %(threads)s threads on %(places)s, %(queues)s,"
        " %(handlers)s. Ctrl-C stops."
    ) % {
        **facts,
        "places": places,
        "queues": _queues(queues) if queues else gettext("all queues"),
        "handlers": _handlers(facts["biz_codes"]),
    }


def _introduced_fields(configs: list[WorkerConfig], processes: int) -> dict[str, Any]:
    return {
        "version": django_tasks.__version__,
        "databases": [config.using for config in configs],
        "processes": processes,
        "threads": configs[0].threads,
        "queues": list(configs[0].queues),
        "biz_codes": list(configs[0].codes or sorted(registry.get_task_handlers())),
    }


def _queues(names: Sequence[str]) -> str:
    text = ngettext("%(count)d queue (%(names)s)", "%(count)d queues (%(names)s)", len(names))
    return text % {"count": len(names), "names": _few(names)}


def _handlers(codes: Sequence[str]) -> str:
    text = ngettext("%(count)d handler (%(names)s)", "%(count)d handlers (%(names)s)", len(codes))
    return text % {"count": len(codes), "names": _few(codes)}


def _few(names: Sequence[str]) -> str:
    shown = listed(names[:MOST_NAMES])
    if len(names) <= MOST_NAMES:
        return shown
    return gettext("%(shown)s and %(count)s more") % {
        "shown": shown,
        "count": len(names) - MOST_NAMES,
    }
