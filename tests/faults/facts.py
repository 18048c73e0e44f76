"""Facts of which tests make histories."""

from typing import Any

from tests.faults.history import Add, Call, End, Fault, History, Misfire, Pause, Run, Update

KEY = ("plain", "1")
LEASE = 3.0


def an_add(nonce: str = "a", sent: float = 10.0, version: int = 0, **facts: Any) -> Add:
    """An acknowledged add, due at once."""
    values: dict[str, Any] = {"answered": sent + 1, "answer": "acknowledged", "stored": True}
    values |= {"id": 1} | facts
    return Add("add", values.pop("key", KEY), sent, nonce=nonce, version=version, **values)


def a_cancel(sent: float, result: str = "cancelled") -> Call:
    return Call("cancel", KEY, sent, sent + 1, "acknowledged", result)


def an_update(nonce: str, sent: float, **facts: Any) -> Update:
    """An acknowledged update that found its task."""
    values: dict[str, Any] = {"answer": "acknowledged", "result": True} | facts
    return Update("update", KEY, sent, sent + 1, nonce=nonce, **values)


def a_call(call: str, sent: float, result: Any = True) -> Call:
    """An acknowledged call that took a tenth of a second."""
    return Call(call, KEY, sent, sent + 0.1, "acknowledged", result)


def a_run(nonce: str = "a", start: float = 12.0, version: int = 1, **facts: Any) -> Run:
    """A run that took a second."""
    values: dict[str, Any] = {"end": start + 1, "how": "done", "worker": 7, "pid": 70, "id": 1}
    values |= {"hop": 0, "key": KEY, "when": 0.0} | facts
    return Run(nonce=nonce, start=start, version=version, **values)


def an_end(run: Run, verdict: str = "accepted", outcome: str = "Done") -> End:
    return End((run.end or run.start) + 0.1, run.claim, outcome, verdict)


def beats(first: int = 0, last: int = 30) -> list[float]:
    return [float(second) for second in range(first, last)]


def a_history(*facts: Any, **more: Any) -> History:
    """A history of these facts; workers 7 and 8 never miss a heartbeat."""
    history = History(LEASE, beats={7: beats(), 8: beats()})
    for fact in facts:
        kinds: dict[type, list[Any]] = {
            Run: history.runs,
            End: history.ends,
            Fault: history.faults,
            Pause: history.pauses,
            Misfire: history.misfires,
        }
        kinds.get(type(fact), history.calls).append(fact)
    for name, value in more.items():
        setattr(history, name, value)
    return history
