"""Drives Apache's Python client from outside: one JSON command a line on standard input, one JSON answer a line.

Runs in the environment of Apache's package and imports nothing of ours. Its faults are worked around here, each
where it bites and with its reason, so that the fake need not be bent to them.
"""

import json
import sys
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from rocketmq.v5.exception import ClientException

say_lock = threading.Lock()


def say(**facts: Any) -> None:
    """Write one answer."""
    with say_lock:
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()


def described(message: Message) -> dict[str, Any]:
    """Say what a received message looks like to an application."""
    return {
        "topic": message.topic,
        "body": bytes(message.body).decode(),
        "message_id": message.message_id,
        "tag": message.tag,
        "keys": list(message.keys or ()),
        "properties": dict(message.properties or {}),
        "group": message.message_group,
        "attempt": message.delivery_attempt,
        "corrupted": message.corrupted,
    }


class Listener(MessageListener):  # type: ignore[misc]  # Apache's package has no types
    """Reports each message; fails those with a listed body, as often as listed."""

    def __init__(self, failures: dict[str, int]) -> None:
        self.failures = failures
        self.lock = threading.Lock()

    def consume(self, message: Message) -> ConsumeResult:
        facts = described(message)
        with self.lock:
            left = self.failures.get(facts["body"], 0)
            self.failures[facts["body"]] = left - 1
        say(consumed=facts, ok=left <= 0)
        return ConsumeResult.FAILURE if left > 0 else ConsumeResult.SUCCESS


class Driver:
    """Holds the clients and the messages received so far."""

    def __init__(self, endpoint: str) -> None:
        self.configuration = ClientConfiguration(endpoint, Credentials(), request_timeout=5)
        self.clients: dict[str, Any] = {}
        self.received: dict[str, Message] = {}

    def start_producer(self, topics: list[str]) -> dict[str, Any]:
        self.start("producer", Producer(self.configuration, topics))
        return {}

    def start_simple(self, group: str, topic: str, tag: str = "*", wait: int = 5) -> dict[str, Any]:
        subscription = {topic: FilterExpression(tag)}
        self.start("simple", SimpleConsumer(self.configuration, group, subscription, await_duration=wait))
        return {}

    def start_push(self, group: str, topic: str, failures: dict[str, int]) -> dict[str, Any]:
        listener = Listener(failures)
        consumer = PushConsumer(self.configuration, group, listener, {topic: FilterExpression()})
        self.start("push", consumer)
        return {"fifo": consumer.fifo}

    def start(self, name: str, client: Any) -> None:
        client.startup()
        # startup() of producers and simple consumers returns before the server answered their settings, so that
        # the first receive can overtake them and is refused (5.1.2; only push consumers wait for this event).
        if not client._init_settings_event.wait(10):
            raise TimeoutError(f"{name}: no settings within 10 s")
        self.clients[name] = client

    def send(self, topic: str, body: str, **extra: Any) -> dict[str, Any]:
        message = Message()
        message.topic = topic
        message.body = body.encode()
        if "tag" in extra:
            message.tag = extra["tag"]
        if "keys" in extra:
            message.keys = extra["keys"][0]
        for name, value in extra.get("properties", {}).items():
            message.add_property(name, value)
        if "group" in extra:
            message.message_group = extra["group"]
        if "deliver_at" in extra:
            message.delivery_timestamp = extra["deliver_at"]
        receipt = self.clients["producer"].send(message)
        return {
            "message_id": receipt.message_id,
            "offset": receipt.offset,
            "recall_handle": receipt.recall_handle,
        }

    def recall(self, topic: str, handle: str) -> dict[str, Any]:
        return {"message_id": self.clients["producer"].recall_message(topic, handle)}

    def receive(self, limit: int, invisible: int) -> dict[str, Any]:
        messages = self.clients["simple"].receive(limit, invisible)
        self.received.update((message.message_id, message) for message in messages)
        return {"messages": [described(message) for message in messages]}

    def ack(self, message_id: str) -> dict[str, Any]:
        self.clients["simple"].ack(self.received[message_id])
        return {}

    def change_invisible(self, message_id: str, seconds: int) -> dict[str, Any]:
        message = self.received[message_id]
        before = message.receipt_handle
        self.clients["simple"].change_invisible_duration(message, seconds)
        return {"handle_changed": message.receipt_handle != before}

    def stop(self, name: str) -> dict[str, Any]:
        started = time.monotonic()
        self.clients.pop(name).shutdown()
        return {"seconds": time.monotonic() - started}


def main() -> None:
    """Obey until standard input ends."""
    driver = Driver(sys.argv[1])
    for line in sys.stdin:
        command = json.loads(line)
        try:
            say(done=getattr(driver, command.pop("do"))(**command))
        except ClientException as refused:
            say(refused=str(refused), code=refused.code)
        except Exception as failure:  # whatever it is, the test shall see it and not wait
            say(failed=f"{type(failure).__name__}: {failure}")


if __name__ == "__main__":
    main()
