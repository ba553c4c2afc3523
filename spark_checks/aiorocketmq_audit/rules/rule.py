"""A rule: the conditions over the rows of one frame under which a promise was kept, broken, or may have been.

Conditions are texts of Spark SQL: they need no session to be written, `explain` prints them, and tests change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

ITSELF = "struct(hi as at, recorder, seq)"
"""The place of a row of the frame `deliveries`, as time, recorder (hash) and number."""

FACTS = ("account", "poll", "queue", "batch", "offset", "until", "bound", "missing")
"""What a second look at the few findings of a rule may need beyond places and keys, as 64-bit numbers."""


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, or a few that belong together, as people choose and read them."""

    name: str
    promise: str
    """In a sentence."""
    subject: str
    """What is counted as judged, in the plural."""
    depends_on_time: bool = True
    """Whether clocks that disagree leave it unsure."""
    by_order: bool = False
    """Whether that is so only of findings by two recorders: what one alone recorded is in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One invariant on the rows of one frame. Every text but `confirmed` is an expression over the frame's columns."""

    check: str
    invariant: str
    judged: str
    """The row is a fact of this rule."""
    violated: str
    """The promise was broken, or may have been."""
    certain: str = "true"
    """It was broken whatever nobody saw; else the finding is *possible*."""
    margin: str = "null"
    """By how much, in microseconds."""
    first: str = ITSELF
    """The earlier of the two events that prove it: `struct(at, recorder, seq)`."""
    second: str = ITSELF
    """The later one."""
    own: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Exemptions that the row itself tells, with their conditions; the first one that holds counts."""
    exemptions: tuple[str, ...] = ()
    """Names of exemptions to look for between `first` and `second`."""
    since: str | None = None
    """From when on a restart exempts; by default the time of `first`."""
    acked: str = "null"
    """When the server said that it is settled: it may have forgotten that in a restart soon after."""
    keys: tuple[str, str] = ("null", "null")
    """Whose exemptions count, beside those of everyone: hashes of the group and of the client, or null."""
    confirmed: str | None = None
    """The second look that decides whether the finding stands; a name of `rules.confirming`."""
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What that look needs: some of FACTS."""

    def finding(self) -> str:
        """A struct that tells the finding, or null where there is none."""
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
        """The rule in words and conditions, for people."""
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
