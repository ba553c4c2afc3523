"""A mutant: one injected defect of the fake, and the cases that must fail on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field

from aiorocketmq_conformance.probe.proxy import ProxyFaults
from aiorocketmq_fake.core.broker import Broker, Parts


@dataclass(frozen=True, slots=True)
class Mutant:
    """One injected defect of the fake."""

    name: str
    """MU and its number in inventory section 7; `mu-` and words where that list has none."""
    kills: tuple[str, ...]
    """Globs of the cases that must fail on it."""
    spares: tuple[str, ...] = (
        "life.settings-simple",
        "life.heartbeat-ok[simple]",
        "send.body-roundtrip[cjk]",
    )
    """Cases that must still pass: a mutant that breaks everything proves little."""
    core: type[Broker] = Broker
    parts: Parts = field(default_factory=Parts)
    """Parts of the core that have the defect."""
    profile: str = "documented"
    changes: Mapping[str, object] = field(default_factory=dict)
    """Fields of the profile with other values."""
    faults: ProxyFaults | None = None
    defect: str = ""
    """In words, where the core's docstring does not say it."""

    @property
    def description(self) -> str:
        """The defect, in one sentence."""
        broken = [
            part
            for part, whole in zip(astuple(self.parts), astuple(Parts()), strict=True)
            if part is not whole
        ]
        return self.defect or ((broken or [self.core])[0].__doc__ or "").partition("\n")[0]


ROUNDTRIP = "send.body-roundtrip[cjk]"
SEND = ("send.receipt",)
SESSION = ("life.settings-simple", "life.heartbeat-ok[simple]")
