"""An overview as plain values, for JSON. Names here are promised: programs read them."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django_tasks.reads.codes import rate_text
from django_tasks.reads.words import Amount
from django_tasks.values.figures import Figures

if TYPE_CHECKING:
    from django_tasks.reads.codes import Code
    from django_tasks.reads.overview import Overview
    from django_tasks.reads.workers import WorkerState


def overview(found: "Overview") -> dict[str, Any]:
    """All of an overview."""
    return {
        "now": moment(found.now),
        "problems": [
            {"kind": each.kind, "level": each.level, "sentence": each.sentence}
            for each in found.problems
        ],
        "workers": {
            "alive": len(found.alive),
            "working": len(found.working),
            "quiet": [each.name for each in found.quiet],
            "silent": [each.name for each in found.silent],
            "last_seen": moment(found.last_seen),
            "list": [worker(each) for each in found.workers],
        },
        "due": amount(found.due),
        "late": {
            **amount(found.late.count),
            "oldest": moment(found.late.oldest),
            "oldest_seconds": seconds_since(found.late.oldest, found.now),
            "by_code": {each.code: amount(each.late) for each in found.late.by_code},
        },
        "running": amount(found.running),
        "stuck": [f"{claim.biz_code}/{claim.biz_num}" for claim in found.stuck],
        "failed": _failed(found),
        "coming": {
            "step_seconds": found.coming.step.total_seconds(),
            "buckets": [
                {"start": moment(bucket.start), **amount(bucket.count)}
                for bucket in found.coming.buckets
            ],
        },
        "speed": {
            each.name: {"runs_a_minute": round(each.runs_a_minute, 3), **figures(each.figures)}
            for each in found.speed
        },
        "codes": [code(each, found.now) for each in found.codes],
        "pauses": [{**pause._asdict(), "since": moment(pause.since)} for pause in found.pauses],
    }


def _failed(found: "Overview") -> dict[str, Any]:
    groups = [
        {
            "code": group.biz_code,
            "exception": group.exception,
            **amount(group.count),
            "first": moment(group.first),
            "last": moment(group.last),
        }
        for group in found.failed.groups
    ]
    return {**amount(found.failed.count), "groups": groups}


def amount(value: Amount) -> dict[str, Any]:
    return {"count": value.number, "is_more": value.is_more}


def figures(found: Figures) -> dict[str, Any]:
    """Runs and failures, and quantiles in seconds."""
    return {
        "runs": found.runs,
        "failures": found.failures,
        "late_p50": found.late.quantile(0.5),
        "late_p99": found.late.quantile(0.99),
        "took_p50": found.took.quantile(0.5),
        "took_p99": found.took.quantile(0.99),
    }


def worker(found: "WorkerState") -> dict[str, Any]:
    """A worker, with its heartbeat as seconds ago."""
    return {
        **found._asdict(),
        "started": moment(found.started),
        "heartbeat": moment(found.heartbeat),
        "queues": list(found.queues),
        "codes": None if found.codes is None else sorted(found.codes),
        "is_alive": found.is_alive,
        "is_working": found.is_working,
        "free": found.free,
    }


def code(found: "Code", now: datetime) -> dict[str, Any]:
    """A code; its figures are those of the last hour."""
    return {
        "code": found.code,
        "has_handler": found.has_handler,
        "workers": found.workers,
        "queues": list(found.queues),
        "first": moment(found.first),
        "oldest_seconds": seconds_since(found.oldest, now),
        "due": amount(found.due),
        "late": amount(found.late),
        "running": amount(found.running),
        "failed": amount(found.failed),
        "is_paused": bool(found.pauses),
        "limits": {
            "max_running": found.limits.in_force.max_running,
            "rate_limit": rate_text(found.limits.in_force.rate),
            "is_full": found.limits.is_full,
        },
        "hour": figures(found.figures),
    }


def moment(value: datetime | None) -> str | None:
    """A time as ISO 8601 in UTC."""
    return None if value is None else value.isoformat()


def seconds_since(value: datetime | None, now: datetime) -> float | None:
    return None if value is None else round((now - value).total_seconds(), 3)
