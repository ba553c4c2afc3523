"""A history as a readable time line: short names, one line for each call, in the order of their ends."""

from __future__ import annotations

from collections.abc import Iterable

from aiorocketmq_conformance.explore.plan import READERS
from aiorocketmq_conformance.model.calls import (
    EVERYTHING,
    Ack,
    Assignment,
    Change,
    Check,
    Commit,
    Committed,
    Drained,
    Ends,
    EndTransaction,
    Forward,
    Gone,
    GroupCreated,
    Joined,
    Lag,
    Left,
    Lock,
    Members,
    Noticed,
    Occurrence,
    Outgoing,
    Pause,
    Pull,
    Recall,
    Receive,
    Reset,
    Restart,
    Route,
    Send,
    Settings,
    TopicCreated,
    Trim,
    Unlock,
    Violation,
)


def timeline(events: Iterable[Occurrence], violations: Iterable[Violation] = ()) -> list[str]:
    """Return the lines of a history, with each violation where it shows."""
    events = list(events)
    names = _names(events)
    lines = [
        (event.ended.step, _line(event.begun.at, event.ended.at, text))
        for event in events
        for text in (_text(event, names),)
        if text
    ]
    for each in violations:
        about = f" ({names.get(each.message, each.message)})" if each.message else ""
        lines.append((each.at.step, f"{'':>10}  ^^ {each.rule}{about}: {each.text}"))
    return [line for _, line in sorted(lines, key=lambda each: each[0])]


def _line(begun: float, ended: float, text: str) -> str:
    took = f" (took {ended - begun:.3f} s)" if ended - begun >= 0.001 else ""
    return f"{ended:>10.3f}  {text}{took}"


def _names(events: Iterable[Occurrence]) -> dict[str, str]:
    """Return the short names of messages (by body), handles, clients, topics and groups."""
    names: dict[str, str] = {}
    for event in events:
        match event:
            case TopicCreated() if event.topic not in names:
                names[event.topic] = f"T{sum(name.startswith('T') for name in names.values())}"
            case GroupCreated() if event.group not in names:
                short = f"G{sum(name.startswith('G') for name in names.values())}"
                if not event.group.endswith(READERS):
                    names[event.group] = short
                    names[f"{event.group}{READERS}"] = f"readers of {short}"
                    names[f"%DLQ%{event.group}"] = f"dead letters of {short}"
            case Send():
                names.update({each.content.id: each.content.body for each in event.messages})
            case Receive():
                for one in event.deliveries:
                    names[one.handle] = f"{one.content.body}/{one.attempt}"
            case Change() if event.new_handle:
                names[event.new_handle] = f"{names.get(event.handle, '?')}'"
            case _:
                pass
        if event.client and event.client not in names:
            count = sum(name.startswith("c") for name in names.values())
            names[event.client] = f"c{count}"
    return names


def _text(event: Occurrence, names: dict[str, str]) -> str:
    def short(name: str) -> str:
        return names.get(name, repr(name))

    who = short(event.client) if event.client else ""
    match event:
        case TopicCreated():
            return f"topic {short(event.topic)}: {event.type}, {event.queues} queues"
        case GroupCreated():
            if event.group.endswith(READERS):
                return ""
            ordered = "ordered, " if event.ordered else ""
            anew = "deleted, and created again, " if event.is_anew else ""
            return f"group {short(event.group)}: {anew}{ordered}at most {event.max_attempts} attempts"
        case Send():
            topic = short(event.messages[0].content.topic)
            return f"{who} sends to {topic}: {', '.join(map(_outgoing, event.messages))} -> {event.code}"
        case Receive():
            request = (
                f"batch {event.batch}, lease {'renewed' if event.auto_renew else f'{event.invisible:g} s'}"
            )
            came = ", ".join(f"{one.content.body}/{one.attempt}" for one in event.deliveries)
            where = f"{short(event.topic)} for {short(event.group)}"
            filter_ = "" if event.filter == EVERYTHING else f" {event.filter.text!r}"
            cut = " (cut)" if event.is_cut else ""
            return f"{who} receives from {where}{filter_}, {request} -> {event.code or 'no response'} {came}{cut}"
        case Ack():
            entries = ", ".join(
                f"{short(handle)} {_at(event.codes, place)}"
                for place, (_, handle) in enumerate(event.entries)
            )
            return f"{who} acks {entries} of {short(event.topic)} for {short(event.group)} -> {event.code}"
        case Change():
            suspend = ", suspend" if event.suspend else ""
            return f"{who} changes {short(event.handle)} to {event.seconds:g} s{suspend} -> {event.code}"
        case Forward():
            return f"{who} forwards {short(event.handle)} -> {event.code}"
        case EndTransaction():
            what = {"commit": "commits", "rollback": "rolls back"}.get(event.decision, "does not decide")
            return f"{who} {what} {short(event.message)} -> {event.code}"
        case Check():
            return f"{who} is asked about {short(event.content.id)}"
        case Settings():
            return ""
        case Route():
            return f"{who} asks for the route of {short(event.topic)} -> {event.code} queues {event.queues}"
        case Assignment():
            return f"{who} asks for its queues of {short(event.topic)} -> {event.code} queues {event.queues}"
        case Recall():
            return f"{who} recalls {short(event.message)} -> {event.code}"
        case Reset():
            where = "the end" if event.to_end else "the beginning"
            where = where if event.at is None else f"{event.at:.3f} s"
            return f"reset of {short(event.group)} to {where} of {short(event.topic)}"
        case Pause():
            return "pause of the server"
        case Pull():
            came = ", ".join(one.content.body for one in event.deliveries)
            what = f"{short(event.topic)}, queue {event.queue} from {event.offset}, batch {event.batch}"
            filter_ = "" if event.filter == EVERYTHING else f" {event.filter.text!r}"
            commit = "" if event.commit is None else f", commits {event.commit}"
            return f"{who} pulls {what}{filter_}{commit} -> {event.code} {came}, next {event.next_offset}"
        case Commit():
            what = f"{event.commit} of {short(event.topic)}, queue {event.queue}"
            return f"{who} commits {what} for {short(event.group)} -> {event.code}"
        case Committed():
            what = f"{short(event.group)} has committed of {short(event.topic)}, queue {event.queue}"
            return f"{who} asks what {what} -> {event.offset}"
        case Ends():
            what = f"{short(event.topic)}, queue {event.queue}"
            return f"{who} asks for the ends of {what} -> {event.low} to {event.high}"
        case Joined():
            return f"{who} is a member of {short(event.group)}"
        case Left():
            return f"{who} leaves {short(event.group)}"
        case Noticed():
            return f"{who} is told of changes in {short(event.group)}"
        case Members():
            return f"{who} asks for members of {short(event.group)} -> {', '.join(map(short, event.clients))}"
        case Lock():
            return f"{who} locks queues {event.asked} of {short(event.topic)} -> {event.granted}"
        case Unlock():
            return f"{who} unlocks queues {event.queues} of {short(event.topic)}"
        case Trim():
            return f"messages older than {event.age:g} s are deleted"
        case Restart():
            return "restart of the server"
        case Gone():
            return f"{who} {'crashes' if event.crashed else 'terminates'}"
        case Lag():
            what = f"lag {event.waiting}, in flight {event.in_flight}"
            return f"{short(event.group)} in {short(event.topic)}: {what}"
        case Drained():
            return f"{short(event.group)} has drained {short(event.topic)}"


def _outgoing(outgoing: Outgoing) -> str:
    content = outgoing.content
    parts = [content.body]
    parts += [f"tag {content.tag}"] if content.tag else []
    parts += [f"group {content.message_group}"] if content.message_group else []
    due = outgoing.deliver_at
    parts += [f"due {due:.3f}"] if due is not None else []
    parts += [] if outgoing.is_legal else ["illegal"]
    return " ".join(parts)


def _at(codes: tuple[str, ...], place: int) -> str:
    return codes[place] if place < len(codes) else ""
