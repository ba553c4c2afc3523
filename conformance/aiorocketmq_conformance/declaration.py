"""What a target declares: capabilities, abilities and numbers; inventory 6.3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

Number = float | int | str

NO_GRPC = "the target has no gRPC service"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a target declares; part of the result of every run."""

    product: str
    version: str
    capabilities: frozenset[str]
    numbers: Mapping[str, Number]
    absences: Mapping[str, str] = field(default_factory=dict)
    """Why needs are not met, if known."""
    is_classic: bool = False
    """Whether it has no gRPC service: only cases over remoting are applicable."""
    is_documented: bool = False
    """Whether it answers as the documents say, also where servers differ: cases for information are judged, too."""

    @property
    def order_grain(self) -> str | None:
        """What ordered groups lock, `group` or `queue`; None if unknown."""
        grain = self.numbers.get("order.grain")
        return None if grain is None else str(grain)

    def having(self, capabilities: frozenset[str]) -> Declaration:
        """Return a declaration with these capabilities in addition."""
        return replace(self, capabilities=self.capabilities | capabilities)

    def missing(self, needs: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of `needs` that this target does not declare.

        A need written `name=value` is met by a number of that name and value: `order.grain=queue`.
        """
        return tuple(need for need in needs if not self._meets(need))

    def complaint(self, needs: tuple[str, ...]) -> str:
        """Return why a case with these needs is not applicable; empty if it is."""
        if self.is_classic and "remoting" not in needs:
            return NO_GRPC
        missing = self.missing(needs)
        reasons = [self.absences[need] for need in missing if need in self.absences]
        explanation = f": {'; '.join(reasons)}" if reasons else ""
        return f"the target does not declare {', '.join(missing)}{explanation}" if missing else ""

    def _meets(self, need: str) -> bool:
        name, equals, value = need.partition("=")
        if equals:
            return str(self.numbers.get(name)) == value
        return need in self.capabilities
