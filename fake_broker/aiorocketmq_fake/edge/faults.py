"""Scripted faults: which call is disturbed, in which way, and how often.

A call is an RPC of the gRPC port, such as `SendMessage`, or a request of the remoting port, such as
`Remoting.PULL_MESSAGE`. All kinds of faults but `cut_stream` are for both. Remoting has no gRPC statuses: a request
that fails, or whose answer is dropped, ends its connection, with all that is in progress on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from random import Random
from types import TracebackType
from typing import Generic, TypedDict, TypeVar, Unpack

from aiorocketmq_fake.core.values.codes import Code
from aiorocketmq_fake.edge.remoting_codes import PULLS, SERVED, ResponseCode, command_name

__all__ = ["Disturbance", "Fault", "FaultRule", "FaultScript", "Faults", "Which", "code_number"]

STREAMS = frozenset({"Telemetry", "ReceiveMessage", "PullMessage"})
RPCS = STREAMS | {
    "QueryRoute",
    "Heartbeat",
    "SendMessage",
    "QueryAssignment",
    "AckMessage",
    "ForwardMessageToDeadLetterQueue",
    "UpdateOffset",
    "GetOffset",
    "QueryOffset",
    "EndTransaction",
    "NotifyClientTermination",
    "ChangeInvisibleDuration",
    "RecallMessage",
    "SyncLiteSubscription",
}
REMOTING = "Remoting."
"""What names of remoting requests begin with."""
REQUESTS = frozenset(map(command_name, SERVED))
HELD = STREAMS.union(map(command_name, PULLS))
STATUSES = (
    *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)

T = TypeVar("T")


class Which(TypedDict, total=False):
    """Which calls a rule means, as keywords of every word of `FaultScript`."""

    client_id: str | None
    topic: str | None
    group: str | None
    times: int | None
    skip: int
    chance: float | None


class Disturbance(Enum):
    """What happens to a call that a rule fits."""

    REFUSE = "refuse"
    """It is answered with a `Status` of the protocol, and nothing is done."""
    FAIL = "fail"
    """It ends with a gRPC status, and nothing is done."""
    DELAY = "delay"
    """It waits on the broker's clock before anything is done."""
    LOSE = "lose"
    """It never arrives: nothing is done, and the caller hears nothing until its own deadline."""
    DROP_REPLY = "drop_reply"
    """Everything is done, but the caller is not told."""
    DUPLICATE = "duplicate"
    """It is done twice, as if the network had repeated it; the caller gets the first answer."""
    CUT_STREAM = "cut_stream"
    """The answering stream breaks with UNAVAILABLE after some frames."""


@dataclass(frozen=True, slots=True)
class FaultRule:
    """Which calls are disturbed, and how; a wrong value is a ValueError when the rule is made."""

    rpc: str
    """Name of the RPC, such as `AckMessage`, or of the remoting request, such as `Remoting.PULL_MESSAGE`; `*` for every
    RPC, and `Remoting.*` for every request."""
    disturbance: Disturbance
    client_id: str | None = None
    """Only calls of this client; None for all."""
    topic: str | None = None
    """Only calls about this topic; None for all."""
    group: str | None = None
    """Only calls about this consumer group; None for all."""
    times: int | None = None
    """How many calls are disturbed before the rule is spent; None for all until it is removed."""
    skip: int = 0
    """How many fitting calls go through unharmed first."""
    code: int = 0
    """REFUSE: the code of the answer, one of the protocol of the call."""
    message: str = "fault injected by the fake broker"
    """REFUSE and FAIL: the text of the answer."""
    status: str = "UNAVAILABLE"
    """FAIL, CUT_STREAM and DROP_REPLY: the gRPC status that the caller sees; over remoting the connection ends."""
    seconds: float = 0.0
    """DELAY: how long, on the broker's clock."""
    frames: int = 0
    """CUT_STREAM: how many frames still go out."""
    hang: bool = False
    """DROP_REPLY: the caller sees nothing at all until its own deadline, rather than `status` at once."""
    chance: float | None = None
    """How likely a fitting call is disturbed, 0 to 1, decided by the broker's seed; None for always."""

    def __post_init__(self) -> None:
        _check_name(self.rpc)
        if self.disturbance is Disturbance.REFUSE:
            code_number(self.code, self.rpc)
        if self.disturbance is Disturbance.CUT_STREAM and self.rpc not in STREAMS:
            raise ValueError(f"{self.rpc} has no stream to cut: use one of {', '.join(sorted(STREAMS))}.")
        if self.disturbance is Disturbance.DUPLICATE and self.rpc in HELD:
            raise ValueError(f"{self.rpc} may be held and cannot be duplicated: name a call that is not.")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times is {self.times}: give at least 1, or None for no limit.")
        if self.skip < 0 or self.frames < 0 or self.seconds < 0:
            raise ValueError("skip, frames and seconds of a fault cannot be negative.")
        if self.chance is not None and not 0.0 <= self.chance <= 1.0:
            raise ValueError(f"chance is {self.chance:g}: give 0 to 1, or None for always.")
        if self.status not in STATUSES:
            raise ValueError(
                f"{self.status!r} is no gRPC status of a failure: use one of {', '.join(STATUSES)}."
            )

    def fits(self, rpc: str, client_id: str, topic: str, group: str) -> bool:
        """Tell whether a call is one of those that this rule means."""
        return (
            self.rpc in (rpc, "Remoting.*" if rpc.startswith(REMOTING) else "*")
            and self.client_id in (None, client_id)
            and self.topic in (None, topic)
            and self.group in (None, group)
        )


class Fault:
    """One rule at work: `with faults.drop_reply(...) as fault:` ends it with the block, `remove()` at once."""

    def __init__(self, number: int, rule: FaultRule, remove: Callable[[int], object]) -> None:
        self.number = number
        """The rule's number in this broker."""
        self.rule = rule
        """What it does to which calls."""
        self.hits = 0
        """How many calls it has disturbed."""
        self.seen = 0
        """How many calls fitted, those that were skipped included."""
        self._remove = remove

    @property
    def is_spent(self) -> bool:
        """Whether the rule has disturbed as many calls as it may."""
        return self.rule.times is not None and self.hits >= self.rule.times

    def remove(self) -> None:
        """End the rule; calls already disturbed stay so. A second time does nothing."""
        self._remove(self.number)

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class FaultScript(ABC, Generic[T]):
    """The words for rules, the same for a broker in this process and for one elsewhere.

    Every word takes the RPC's name first and narrows by `client_id`, `topic`, `group`; `times` bounds how many calls
    are disturbed, `skip` lets the first fitting ones through, `chance` disturbs each with that likelihood.
    """

    @abstractmethod
    def add(self, rule: FaultRule) -> T:
        """Put a rule to work."""

    def refuse(self, rpc: str, code: int | str, message: str | None = None, **which: Unpack[Which]) -> T:
        """Answer with the protocol's `code`, given as number, or by name such as `TOO_MANY_REQUESTS` (over remoting
        `SYSTEM_BUSY`); do nothing."""
        text = f"{rpc} refused by a fault of the test" if message is None else message
        number = code_number(code, rpc)
        return self.add(FaultRule(rpc, Disturbance.REFUSE, code=number, message=text, **which))

    def fail(self, rpc: str, status: str = "UNAVAILABLE", **which: Unpack[Which]) -> T:
        """End the call with a gRPC status, by name, or the connection of a remoting request; do nothing."""
        return self.add(FaultRule(rpc, Disturbance.FAIL, status=status, **which))

    def delay(self, rpc: str, seconds: float, **which: Unpack[Which]) -> T:
        """Let `seconds` pass on the broker's clock before anything is done."""
        return self.add(FaultRule(rpc, Disturbance.DELAY, seconds=seconds, **which))

    def lose(self, rpc: str, **which: Unpack[Which]) -> T:
        """Let the call never arrive: nothing is done, and the caller hears nothing until its own deadline."""
        return self.add(FaultRule(rpc, Disturbance.LOSE, **which))

    def drop_reply(
        self, rpc: str, *, hang: bool = False, status: str = "UNAVAILABLE", **which: Unpack[Which]
    ) -> T:
        """Do everything, then end the call with `status`, as a broken connection does; over remoting it breaks.

        With `hang` the caller hears nothing until its own deadline. A message stream gives back nothing: what was
        handed out stays leased.
        """
        return self.add(FaultRule(rpc, Disturbance.DROP_REPLY, hang=hang, status=status, **which))

    def duplicate(self, rpc: str, **which: Unpack[Which]) -> T:
        """Do everything twice, as if the network had repeated the call; the caller gets the first answer."""
        return self.add(FaultRule(rpc, Disturbance.DUPLICATE, **which))

    def cut_stream(
        self, rpc: str, *, frames: int = 0, status: str = "UNAVAILABLE", **which: Unpack[Which]
    ) -> T:
        """Break the answering stream with `status` after `frames` frames went out."""
        return self.add(FaultRule(rpc, Disturbance.CUT_STREAM, frames=frames, status=status, **which))


class Faults(FaultScript[Fault]):
    """The rules of one broker. The oldest rule that fits a call disturbs it, and no other does."""

    def __init__(self, seed: int = 0) -> None:
        """`seed` decides what rules with a `chance` do."""
        self._active: dict[int, Fault] = {}
        self._count = 0
        self._chance = Random(seed)

    def __bool__(self) -> bool:
        """Whether any rule is at work."""
        return bool(self._active)

    def __iter__(self) -> Iterator[Fault]:
        """Go through the rules at work, the oldest first."""
        return iter(tuple(self._active.values()))

    def add(self, rule: FaultRule) -> Fault:
        """Put a rule to work, behind those already there."""
        self._count += 1
        fault = self._active[self._count] = Fault(self._count, rule, self.remove)
        return fault

    def remove(self, number: int) -> bool:
        """End a rule by its number; tell whether it was at work."""
        return self._active.pop(number, None) is not None

    def clear(self) -> None:
        """End every rule."""
        self._active.clear()

    def take(self, rpc: str, client_id: str, topic: str, group: str) -> FaultRule | None:
        """Return the rule that disturbs this call, counted as used, or None."""
        for fault in self._active.values():
            if fault.rule.fits(rpc, client_id, topic, group):
                fault.seen += 1
                if fault.seen <= fault.rule.skip:
                    continue
                if fault.rule.chance is not None and self._chance.random() >= fault.rule.chance:
                    continue
                fault.hits += 1
                if fault.is_spent:
                    del self._active[fault.number]
                return fault.rule
        return None


def code_number(code: int | str, rpc: str) -> int:
    """Return the number of a code that refuses `rpc`, given by number or name; ValueError if its protocol has none."""
    codes: type[Code] | type[ResponseCode] = ResponseCode if rpc.startswith(REMOTING) else Code
    try:
        number = codes[code] if isinstance(code, str) else codes(code)
    except (KeyError, ValueError):
        number = ResponseCode.SUCCESS
    if number is ResponseCode.SUCCESS:
        example = "SYSTEM_BUSY" if codes is ResponseCode else "TOO_MANY_REQUESTS"
        raise ValueError(f"{rpc} cannot be refused with the code {code!r}: use a name such as {example}.")
    return int(number)


def _check_name(rpc: str) -> None:
    if rpc in RPCS or rpc in REQUESTS or rpc in ("*", "Remoting.*"):
        return
    names = REQUESTS if rpc.startswith(REMOTING) else RPCS
    every = "'Remoting.*'" if names is REQUESTS else "'*', or a request such as Remoting.PULL_MESSAGE"
    raise ValueError(f"no RPC is called {rpc!r}: use one of {', '.join(sorted(names))}, or {every}.")
