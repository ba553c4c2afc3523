"""Scripted faults: which calls, which disturbance, how often.

A call is an RPC of the gRPC port, such as `SendMessage`, or a request of the remoting port, such as
`Remoting.PULL_MESSAGE`. All kinds of faults but `cut_stream` apply to both. Remoting has no gRPC statuses: a request
that fails, or whose answer is dropped, breaks its connection, with all requests in progress.
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
"""Prefix of the names of remoting requests."""
REQUESTS = frozenset(map(command_name, SERVED))
HELD = STREAMS.union(map(command_name, PULLS))
STATUSES = (
    *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)

T = TypeVar("T")


class Which(TypedDict, total=False):
    """Conditions of a rule, as keywords of every method of `FaultScript`."""

    client_id: str | None
    topic: str | None
    group: str | None
    times: int | None
    skip: int
    chance: float | None


class Disturbance(Enum):
    """What happens to a matching call."""

    REFUSE = "refuse"
    """Answered with a `Status` of the protocol, without effect."""
    FAIL = "fail"
    """Ended with a gRPC status, without effect."""
    DELAY = "delay"
    """Delayed on the broker's clock, then executed."""
    LOSE = "lose"
    """Never arrives: no effect, and no answer until the caller's own deadline."""
    DROP_REPLY = "drop_reply"
    """Executed without an answer."""
    DUPLICATE = "duplicate"
    """Executed twice, as if the network had repeated it; the caller gets the first answer."""
    CUT_STREAM = "cut_stream"
    """The response stream breaks with UNAVAILABLE after some frames."""


@dataclass(frozen=True, slots=True)
class FaultRule:
    """Which calls are disturbed, and how; ValueError for an invalid value."""

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
    """How many calls are disturbed; None for all until the rule is removed."""
    skip: int = 0
    """How many matching calls pass undisturbed first."""
    code: int = 0
    """REFUSE: the code of the answer, in the protocol of the call."""
    message: str = "fault injected by the fake broker"
    """REFUSE and FAIL: the text of the answer."""
    status: str = "UNAVAILABLE"
    """FAIL, CUT_STREAM and DROP_REPLY: the gRPC status for the caller; over remoting the connection breaks."""
    seconds: float = 0.0
    """DELAY: how long, on the broker's clock."""
    frames: int = 0
    """CUT_STREAM: how many frames are sent first."""
    hang: bool = False
    """DROP_REPLY: no answer until the caller's own deadline, instead of `status` at once."""
    chance: float | None = None
    """Probability that a matching call is disturbed, 0 to 1, by the broker's seed; None for always."""

    def __post_init__(self) -> None:
        _check_name(self.rpc)
        if self.disturbance is Disturbance.REFUSE:
            code_number(self.code, self.rpc)
        if self.disturbance is Disturbance.CUT_STREAM and self.rpc not in STREAMS:
            raise ValueError(f"cut_stream needs one of {', '.join(sorted(STREAMS))}, got {self.rpc!r}")
        if self.disturbance is Disturbance.DUPLICATE and self.rpc in HELD:
            raise ValueError(f"duplicate is impossible for {self.rpc}, which may be parked")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times must be 1 or more, or None; got {self.times}")
        if self.skip < 0 or self.frames < 0 or self.seconds < 0:
            raise ValueError(
                f"skip, frames and seconds must be 0 or more, got {self.skip}, {self.frames}, {self.seconds}"
            )
        if self.chance is not None and not 0.0 <= self.chance <= 1.0:
            raise ValueError(f"chance must be 0 to 1, or None; got {self.chance:g}")
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {self.status!r}")

    def fits(self, rpc: str, client_id: str, topic: str, group: str) -> bool:
        """Return whether a call matches this rule."""
        return (
            self.rpc in (rpc, "Remoting.*" if rpc.startswith(REMOTING) else "*")
            and self.client_id in (None, client_id)
            and self.topic in (None, topic)
            and self.group in (None, group)
        )


class Fault:
    """One active rule: `with faults.drop_reply(...) as fault:` removes it with the block, `remove()` at once."""

    def __init__(self, number: int, rule: FaultRule, remove: Callable[[int], object]) -> None:
        self.number = number
        """The rule's number in this broker."""
        self.rule = rule
        """What it does to which calls."""
        self.hits = 0
        """How many calls it has disturbed."""
        self.seen = 0
        """How many calls matched, skipped ones included."""
        self._remove = remove

    @property
    def is_spent(self) -> bool:
        """Whether the rule has disturbed as many calls as it may."""
        return self.rule.times is not None and self.hits >= self.rule.times

    def remove(self) -> None:
        """Remove the rule; calls in progress stay disturbed. A second call does nothing."""
        self._remove(self.number)

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class FaultScript(ABC, Generic[T]):
    """Methods that add rules, the same for a local and a remote broker.

    Each takes the RPC's name first and filters by `client_id`, `topic`, `group`; `times` bounds the number of
    disturbed calls, `skip` spares the first matching ones, `chance` is the probability for each.
    """

    @abstractmethod
    def add(self, rule: FaultRule) -> T:
        """Add a rule."""

    def refuse(self, rpc: str, code: int | str, message: str | None = None, **which: Unpack[Which]) -> T:
        """Answer with the protocol's `code`, a number or a name such as `TOO_MANY_REQUESTS` (over remoting
        `SYSTEM_BUSY`), without effect."""
        text = f"{rpc} refused by a fault of the test" if message is None else message
        number = code_number(code, rpc)
        return self.add(FaultRule(rpc, Disturbance.REFUSE, code=number, message=text, **which))

    def fail(self, rpc: str, status: str = "UNAVAILABLE", **which: Unpack[Which]) -> T:
        """End the call with a gRPC status, by name, or the connection of a remoting request, without effect."""
        return self.add(FaultRule(rpc, Disturbance.FAIL, status=status, **which))

    def delay(self, rpc: str, seconds: float, **which: Unpack[Which]) -> T:
        """Delay the call by `seconds` on the broker's clock."""
        return self.add(FaultRule(rpc, Disturbance.DELAY, seconds=seconds, **which))

    def lose(self, rpc: str, **which: Unpack[Which]) -> T:
        """Lose the call: no effect, and no answer until the caller's own deadline."""
        return self.add(FaultRule(rpc, Disturbance.LOSE, **which))

    def drop_reply(
        self, rpc: str, *, hang: bool = False, status: str = "UNAVAILABLE", **which: Unpack[Which]
    ) -> T:
        """Execute the call, then end it with `status`, as a broken connection does; over remoting it breaks.

        With `hang` there is no answer until the caller's own deadline. Messages of a lost answer stay leased.
        """
        return self.add(FaultRule(rpc, Disturbance.DROP_REPLY, hang=hang, status=status, **which))

    def duplicate(self, rpc: str, **which: Unpack[Which]) -> T:
        """Execute the call twice, as if the network had repeated it; the caller gets the first answer."""
        return self.add(FaultRule(rpc, Disturbance.DUPLICATE, **which))

    def cut_stream(
        self, rpc: str, *, frames: int = 0, status: str = "UNAVAILABLE", **which: Unpack[Which]
    ) -> T:
        """Break the response stream with `status` after `frames` frames."""
        return self.add(FaultRule(rpc, Disturbance.CUT_STREAM, frames=frames, status=status, **which))


class Faults(FaultScript[Fault]):
    """The rules of one broker. Only the oldest matching rule disturbs a call."""

    def __init__(self, seed: int = 0) -> None:
        """`seed` is that of rules with a `chance`."""
        self._active: dict[int, Fault] = {}
        self._count = 0
        self._chance = Random(seed)

    def __bool__(self) -> bool:
        """Whether any rule is active."""
        return bool(self._active)

    def __iter__(self) -> Iterator[Fault]:
        """Iterate over the active rules, the oldest first."""
        return iter(tuple(self._active.values()))

    def add(self, rule: FaultRule) -> Fault:
        """Add a rule after the existing ones."""
        self._count += 1
        fault = self._active[self._count] = Fault(self._count, rule, self.remove)
        return fault

    def remove(self, number: int) -> bool:
        """Remove a rule by its number; return whether it was active."""
        return self._active.pop(number, None) is not None

    def clear(self) -> None:
        """Remove every rule."""
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
        raise ValueError(
            f"code of a refused {rpc} must be one of its protocol, such as {example}; got {code!r}"
        )
    return int(number)


def _check_name(rpc: str) -> None:
    if rpc in RPCS or rpc in REQUESTS or rpc in ("*", "Remoting.*"):
        return
    names = REQUESTS if rpc.startswith(REMOTING) else RPCS
    every = "'Remoting.*'" if names is REQUESTS else "'*', or a request such as Remoting.PULL_MESSAGE"
    raise ValueError(f"rpc must be {every}, or one of {', '.join(sorted(names))}; got {rpc!r}")
