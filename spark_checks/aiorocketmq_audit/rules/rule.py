"""A rule: conditions over the rows of one frame under which a promise was kept, broken, or possibly broken.

Conditions are Spark SQL texts: they need no session to be defined, `explain` prints them, and tests mutate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

ITSELF = "struct(hi as at, recorder, seq)"
"""The event of a row of the frame `deliveries`: time, recorder (hash) and sequence number."""

FACTS = ("account", "poll", "queue", "batch", "offset", "until", "bound", "missing")
"""Values for the confirmation of a finding, beyond its events and keys, as 64-bit numbers."""


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, or several related ones: the unit of selection and reporting."""

    name: str
    promise: str
    """One sentence."""
    subject: str
    """What is judged, as a plural noun."""
    depends_on_time: bool = True
    """Whether findings are uncertain if clocks disagree."""
    by_order: bool = False
    """Whether this applies only to findings across two recorders: events of one recorder are in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One invariant on the rows of one frame. Every text but `confirmed` is an expression over the frame's columns."""

    check: str
    invariant: str
    judged: str
    """The rule applies to the row."""
    violated: str
    """The promise was broken, or possibly broken."""
    certain: str = "true"
    """It was broken whatever happened unobserved; otherwise the finding is *possible*."""
    margin: str = "null"
    """By how much, in microseconds."""
    first: str = ITSELF
    """The earlier of the two events that prove it: `struct(at, recorder, seq)`."""
    second: str = ITSELF
    """The later one."""
    own: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Exemptions that follow from the row itself, with their conditions; the first one that holds counts."""
    exemptions: tuple[str, ...] = ()
    """Names of exemptions that apply if their event is between `first` and `second`."""
    since: str | None = None
    """A restart after this time exempts; by default the time of `first`."""
    acked: str = "null"
    """When the server confirmed the settlement, which a restart soon after may lose."""
    keys: tuple[str, str] = ("null", "null")
    """Hashes of the group and of the client whose exemptions apply, in addition to global ones, or null."""
    confirmed: str | None = None
    """The name of the confirmation that decides whether the finding stands."""
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Inputs of the confirmation: some of FACTS."""

    def finding(self) -> str:
        """Return the SQL expression of the finding as a struct, null if there is none."""
        own = "".join(f" when {condition} then '{name}'" for name, condition in self.own.items())
        exemption = f"case{own} end" if own else "cast(null as string)"
        facts = ", ".join(f"cast({self.facts.get(name, 'null')} as bigint) as {name}" for name in FACTS)
        gid, client = self.keys
        exemptions = ", ".join(repr(name) for name in self.exemptions)
        return f"""case when ({self.judged}) and ({self.violated}) then struct(
            '{self.invariant}' as invariant, '{self.check}' as check, coalesce({self.certain}, false) as certain,
            {exemption} as exemption, cast({self.margin} as bigint) as margin_us,
            {self.first} as first, {self.second} as second,
            cast({self.since or f"({self.first}).at"} as bigint) as since, cast({self.acked} as bigint) as acked,
            scope, cast({gid} as bigint) as gid, cast({client} as bigint) as client,
            cast({"null" if self.confirmed is None else repr(self.confirmed)} as string) as confirmed,
            cast(array({exemptions}) as array<string>) as exemptions, {facts}) end"""

    def description(self) -> str:
        """Return the rule with its conditions as text."""
        names = ("judged", "violated", "certain", "margin", "first", "second")
        lines = [f"{self.invariant}, check {self.check}"]
        lines += [f"  {name}: {' '.join(getattr(self, name).split())}" for name in names]
        lines += [
            f"  exempted by its own row: {name}: {' '.join(text.split())}" for name, text in self.own.items()
        ]
        if self.exemptions:
            lines.append(f"  exempted by what happened between: {', '.join(self.exemptions)}")
        if self.confirmed:
            lines.append(f"  confirmed by: {self.confirmed}")
        return "\n".join(lines)
