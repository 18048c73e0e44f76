"""The records of all journals, read into a history."""

from collections.abc import Iterable
from typing import Any

from tests.faults.history import Add, Call, End, Fault, History, Misfire, Pause, Run, Update


def from_records(records: Iterable[dict[str, Any]], history: History) -> History:
    """Read journals into ``history``."""
    open_calls: dict[str, dict[str, Any]] = {}
    answers: dict[str, dict[str, Any]] = {}
    starts: dict[str, dict[str, Any]] = {}
    ends: dict[str, dict[str, Any]] = {}
    for record in records:
        _note_life(record, history)
        match record["kind"]:
            case "sent":
                open_calls[record["name"]] = record
            case "answer":
                answers[record["name"]] = record
            case "start":
                starts[record["run"]] = record
            case "end":
                ends[record["run"]] = record
            case "finish":
                for row, version, worker, outcome, verdict in record["ends"]:
                    claim = (row, version, worker)
                    history.ends.append(End(record["at"], claim, outcome, verdict))
            case "beat" if record["renewed"]:
                history.beats.setdefault(record["worker"], []).append(record["asked"])
                history.pids[record["worker"]] = record["pid"]
            case _:
                _read(record, history)
    for name, sent in open_calls.items():
        history.calls.append(_call(sent, answers.get(name)))
    for run, start in starts.items():
        history.runs.append(_run(start, ends.get(run), history.lasts))
    return history


def _note_life(record: dict[str, Any], history: History) -> None:
    pid = record.get("pid", 0)
    history.lasts[pid] = max(record["at"], history.lasts.get(pid, 0.0))


def _read(record: dict[str, Any], history: History) -> None:
    """A record that says everything by itself."""
    at = record["at"]
    match record["kind"]:
        case "rescue":
            history.rescues.append((record["worker"], at))
        case "fault":
            facts = {"pids": tuple(record["pids"]), "away": record.get("away", False)}
            history.faults.append(Fault(record["name"], record["from"], at, **facts))
        case "held":
            history.looks.append((at, frozenset((row, worker) for row, worker in record["rows"])))
        case "nap":
            # A worker waits for the process that runs a suspect in its place.
            for pid in {record["pid"], record.get("parent", record["pid"])}:
                history.naps.setdefault(pid, []).append((record["from"], at))
        case "apart":
            claim = record["row"], record["worker"]
            history.starts_apart.setdefault(claim, []).append((record["from"], at))
        case "complaint":
            history.complaints.append(record["text"])
        case "found":
            history.found.append(record["text"])
        case "settling":
            history.settling = at
        case "stopping":
            history.stopped = at
        case _:
            _read_of_order(record, history)


def _read_of_order(record: dict[str, Any], history: History) -> None:
    """A record of stops, pauses and limits of time."""
    at, pid = record["at"], record.get("pid", 0)
    match record["kind"]:
        case "pause":
            times = record["from"], record["answered"], record["end_asked"], at
            history.pauses.append(Pause(record["code"], record["queue"], *times))
        case "misfire":
            names = ("at", "id", "code", "queue", "when", "grace")
            history.misfires.append(Misfire(**{name: record[name] for name in names}))
        case "condemned":
            history.condemned.setdefault(pid, at)
        case "forgiving":
            history.unforgiven.add(pid)
        case "forgiven":
            history.unforgiven.discard(pid)
            history.forgiven.append((record["worker"], at, frozenset(record["guilty"])))
        case "given_up":
            history.given_up.update((tuple(claim), at) for claim in record["claims"])
        case "last_act":
            history.last_acts.update((tuple(claim), at) for claim in record["claims"])
        case "exited":
            history.exits[pid] = at
        case "patience":
            history.patience = record["seconds"]


def _call(sent: dict[str, Any], answer: dict[str, Any] | None) -> Call:
    facts: dict[str, Any] = {
        "call": sent["call"],
        "key": (sent["code"], sent["num"]),
        "sent": sent["at"],
    }
    known = answer is not None and answer["answer"] != "unknown"
    if answer is not None and known:
        facts |= {"answered": answer["at"], "answer": answer["answer"]}
    if sent["call"] == "update" and "nonce" in sent:  # else it has left whose task it is
        return Update(**facts, result=answer.get("result") if answer else None, nonce=sent["nonce"])
    if sent["call"] != "add":
        return Call(**facts, result=answer.get("result") if answer is not None else None)
    facts |= {"nonce": sent["nonce"], "when": sent["when"]}
    if answer is not None and known:
        names = ("id", "version", "stored")
        facts |= {name: answer[name] for name in names if name in answer}
    return Add(**facts)


def _run(start: dict[str, Any], end: dict[str, Any] | None, lasts: dict[int, float]) -> Run:
    names = ("id", "version", "worker", "pid", "nonce", "hop", "when", "atomic", "scheduled")
    more = ("queue", "claimed", "attempts", "rescues", "thread", "call")
    return Run(
        key=(start["code"], start["num"]),
        start=start["at"],
        end=end["at"] if end else None,
        how=end["how"] if end else "",
        raised=bool(end and end.get("raised")),
        is_charge=bool(end and end.get("is_charge")),
        lasted=lasts.get(start["pid"]),
        **{name: start[name] for name in names},
        **{name: start[name] for name in more if name in start},
    )
