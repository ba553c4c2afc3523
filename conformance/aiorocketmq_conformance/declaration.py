"""What a target declares: capabilities, abilities and numbers; inventory 6.3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

Number = float | int | str

NO_GRPC = "the target has no gRPC service"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A target's own statement, frozen into the result of every run."""

    product: str
    version: str
    capabilities: frozenset[str]
    numbers: Mapping[str, Number]
    absences: Mapping[str, str] = field(default_factory=dict)
    """Why needs are not met, where that is known."""
    is_classic: bool = False
    """Whether it has no gRPC service: cases over remoting alone are judged."""

    @property
    def order_grain(self) -> str | None:
        """What ordered groups lock, `group` or `queue`; None where nobody said."""
        grain = self.numbers.get("order.grain")
        return None if grain is None else str(grain)

    def having(self, capabilities: frozenset[str]) -> Declaration:
        """The same with these capabilities, too."""
        return replace(self, capabilities=self.capabilities | capabilities)

    def missing(self, needs: tuple[str, ...]) -> tuple[str, ...]:
        """Those of `needs` that this target does not claim.

        A need written `name=value` is met by a number of that name and value: `order.grain=queue`.
        """
        return tuple(need for need in needs if not self._meets(need))

    def complaint(self, needs: tuple[str, ...]) -> str:
        """Why a case with these needs cannot be judged; empty when it can."""
        if self.is_classic and "remoting" not in needs:
            return NO_GRPC
        missing = self.missing(needs)
        reasons = [self.absences[need] for need in missing if need in self.absences]
        said = f": {'; '.join(reasons)}" if reasons else ""
        return f"the target does not claim {', '.join(missing)}{said}" if missing else ""

    def _meets(self, need: str) -> bool:
        name, equals, value = need.partition("=")
        if equals:
            return str(self.numbers.get(name)) == value
        return need in self.capabilities
