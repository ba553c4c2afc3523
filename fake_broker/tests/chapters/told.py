"""A desk that tells what happens to it."""

from __future__ import annotations

import inspect
from typing import Any

from aiorocketmq_fake.core.values.codes import (
    Refusal,
)
from aiorocketmq_fake.core.values.events import Event
from aiorocketmq_fake.core.values.model import (
    OutgoingMessage,
)
from aiorocketmq_fake.core.values.profile import Profile

from fake_broker.tests.core.conftest import Desk
from fake_broker.tests.story import shown


class Told:
    """A desk whose commands are written down with their answers, the events they caused and what was sent."""

    def __init__(self, profile: Profile, **options: Any) -> None:
        self.desk = Desk(profile, **options)
        self.lines: list[str] = []
        self.events: list[Event] = []
        self.desk.broker.take_events()

    def __call__(self, command: str, *arguments: Any, **fields: Any) -> Any:
        """Run a command at the time of the desk; return its answer, None if it was refused."""
        call = getattr(self.desk.broker, command)
        if "now" in inspect.signature(call).parameters:
            fields["now"] = self.desk.now
        answer = None
        try:
            answer = call(*arguments, **fields)
        except (Refusal, ValueError) as error:
            said = f"refused, {error}"
            if isinstance(error, Refusal):
                said += f" [{error.surface.name}]"
        else:
            said = shown(answer)
        self.tell(f"{command}: {said}")
        return answer

    def tell(self, line: str) -> None:
        self.lines.append(line)
        events = self.desk.broker.take_events()
        self.events += events
        self.lines += [f"  event {shown(event)}" for event in events]
        self.lines += [f"  output {shown(output)}" for output in self.desk.broker.take_outputs()]

    def wait(self, seconds: float, *, heartbeats: bool = True) -> None:
        self.desk.wait(seconds, heartbeats=heartbeats)
        self.tell(f"after {seconds:g} s")

    def send(self, *messages: OutgoingMessage, client_id: str = "p") -> Any:
        return self("send", messages, client_id=client_id)

    def one(self, message_id: str = "m", **fields: Any) -> Any:
        return self.send(self.desk.message(message_id, **fields))

    def receive(self, batch_size: int = 32, **fields: Any) -> Any:
        return self("receive", self.desk.request(batch_size, **fields))
