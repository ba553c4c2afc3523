"""The first look: what must be known of all events before any of them is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.kernels import recorders
from aiorocketmq_audit.kernels.blocks import Runs
from aiorocketmq_audit.kernels.events import NONE, Events, Numbers
from aiorocketmq_audit.kernels.passed import lanes
from aiorocketmq_audit.kernels.places import queues
from aiorocketmq_audit.kernels.question import ACCOUNT, FOREVER, Drains, Survey, Table, Windows
from aiorocketmq_audit.kernels.texts import NOBODY, Hashes, hash_of, mixed

COLUMNS = frozenset(
    (
        *(*recorders.COLUMNS, "cfg"),
        *(*ACCOUNT, "topic", "broker", "queue", "offset", "group", "kind", "phase", "role", "attempt"),
        *("message_group", "filter", "t_wall_us", "invoked_us", "commit_offset"),
    )
)

MOST_WINDOWS = 500_000
"""Windows that a process has to hold, at most: where message groups are as many as messages, Spark has to find what was
passed over."""

_KEYS = ("queue", "group", "lane", "wanted")


@dataclass(frozen=True, slots=True)
class Groups:
    """What settings say of groups, which are told by run, case and name."""

    free: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    """Those that do not ask for order."""
    attested: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    """Those of which the broker gives an account: it knows what their clients can only suspect."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of some events; `survey` puts it together."""

    recorders: list[dict[str, Any]]

    lost: Mapping[int, int]
    began: Mapping[int, int]
    resets: frozenset[int]
    left: Mapping[int, int]
    windows: Mapping[str, NDArray[Any]]
    drained: Mapping[int, int]
    readers: Mapping[str, NDArray[Any]]
    filters: Mapping[int, str | None]


def look(events: Events, groups: Groups) -> Look:
    """Look at a piece of the recording."""
    lost = events.some(
        events.one_of("kind", "receive")
        & events.one_of("phase", "info")
        & events.one_of("observer", "client")
    )
    starts, resets, trims, drains = (
        events.some(events.one_of("kind", kind)) for kind in ("recorder.start", "reset", "trim", "drain.ok")
    )
    drains = drains.some(drains.known("topic") & drains.known("group"))
    return Look(
        recorders=recorders.by_kind(events),
        lost=_least(lost.together(*ACCOUNT, "group"), _called(lost)),
        began=_least(starts.together(*ACCOUNT), starts.number("t_wall_us")),
        resets=frozenset(resets.together(*ACCOUNT, "group").tolist()),
        left=_greatest(queues(trims), trims.number("commit_offset")),
        windows=_windows(events, groups),
        drained=_greatest(_topics(drains), _called(drains)),
        readers=_readers(events),
        filters=events.vocabulary("filter"),
    )


def merged(looks: Iterable[Look]) -> Look:
    """Several looks as one: few rows, however much was looked at."""
    seen = list(looks)
    windows = _all_of([each.windows for each in seen], _folded)
    return Look(
        recorders=[row for each in seen for row in each.recorders],
        lost=_united((each.lost for each in seen), min),
        began=_united((each.began for each in seen), min),
        resets=frozenset[int]().union(*(each.resets for each in seen)),
        left=_united((each.left for each in seen), max),
        windows=windows if windows and len(windows["queue"]) <= MOST_WINDOWS else {},
        drained=_united((each.drained for each in seen), max),
        readers=_all_of([each.readers for each in seen], _first),
        filters={key: text for each in seen for key, text in each.filters.items()},
    )


def survey(look: Look, groups: Groups) -> Survey:
    """What all that was seen comes to."""
    return Survey(
        _table(look.lost),
        _table(look.began),
        _table(look.left),
        _known(look, groups) if look.windows else None,
        _drains(look, groups),
    )


def _united(parts: Iterable[Mapping[int, int]], chosen: Callable[[int, int], int]) -> dict[int, int]:
    total: dict[int, int] = {}
    for part in parts:
        for key, number in part.items():
            total[key] = chosen(number, total.get(key, number))
    return total


def _all_of(
    parts: Sequence[Mapping[str, NDArray[Any]]],
    folded: Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]],
) -> dict[str, NDArray[Any]]:
    return (
        folded({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        if all(parts)
        else {}
    )


def _windows(events: Events, groups: Groups) -> dict[str, NDArray[Any]]:
    """By queue, group, message group and filter: from where to where first attempts were handed out."""
    first = events.one_of("kind", "deliver") & (events.number("attempt") == 1) & events.told("offset")
    events = events.some(first & events.known("group") & ~events.one_of("role", "pull"))
    told = {
        "queue": queues(events),
        "group": events.text("group"),
        "reader": events.together("run_id", "case_id", "group"),
        "lane": lanes(events),
        "wanted": events.text("filter"),
        "account": events.together(*ACCOUNT, "group"),
        "by_broker": events.one_of("observer", "broker"),
    }
    told["lane"] = np.where(np.isin(told["reader"], groups.free), np.uint64(0), told["lane"])
    offset = events.number("offset")
    return _folded(told | {"lowest": offset, "highest": offset, "at": events.number("t_wall_us")})


def _called(events: Events) -> Numbers:
    """When each event began, as far as anybody tells."""
    return np.where(events.told("invoked_us"), events.number("invoked_us"), events.number("t_wall_us"))


def _topics(events: Events) -> Hashes:
    """One number for the topic and the group of each event, of its account."""
    return mixed(events.together(*ACCOUNT, "topic"), events.text("group"))


def _readers(events: Events) -> dict[str, NDArray[Any]]:
    """By topic, group and filter: since when something was asked for, or came."""
    events = events.some(
        events.one_of("kind", "deliver", "receive") & events.known("topic") & events.known("group")
    )
    wanted = np.where(events.known("filter"), events.text("filter"), np.uint64(hash_of("?")))
    told = {
        "key": _topics(events),
        "wanted": np.where(events.one_of("kind", "deliver"), wanted, NOBODY),
        "group": events.text("group"),
        "reader": events.together("run_id", "case_id", "group"),
        "account": events.together(*ACCOUNT, "group"),
        "by_broker": events.one_of("observer", "broker"),
        "at": _called(events),
    }
    return _first(told)


def _first(told: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """One row for each topic, group and filter."""
    runs = Runs(mixed(told["key"], told["wanted"]))
    some = runs.order[runs.begins]
    return {name: column[some] for name, column in told.items()} | {"at": runs.least(told["at"])}


def _drains(look: Look, groups: Groups) -> Drains:
    """Groups that were drained, and what they had to have settled by then: as `drained` has them."""
    if not look.drained:
        return Drains()
    told, texts = look.readers, look.filters
    runs = Runs(told["key"])
    some = runs.order[runs.begins]
    filters = runs.count(told["wanted"] != NOBODY)
    # Who was handed nothing at all has told no filter: it wants everything, as far as anybody knows.
    wanted = [(texts.get(int(key)) or "") if key else "TAG:*" for key in runs.most(told["wanted"]).tolist()]
    ended = _table(look.drained).of(runs.key[runs.begins], NONE)
    resets = np.array(sorted(look.resets), np.uint64)
    attested = ~told["by_broker"][some] & np.isin(told["reader"][some], groups.attested)
    known = (filters <= 1) & np.array([text.startswith("TAG:") for text in wanted], np.bool_)
    kept = np.flatnonzero(known & (ended != NONE) & ~attested & ~np.isin(told["account"][some], resets))
    names, which = np.unique([wanted[place] for place in kept], return_inverse=True)
    return Drains(
        Table.by(runs.key[runs.begins][kept], np.arange(len(kept))),
        runs.least(told["at"])[kept],
        ended[kept],
        which,
        tuple(names.tolist()),
        tuple(sorted(set(told["group"][some][kept].tolist()))),
    )


def _folded(told: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """One row for each of the keys."""
    runs = Runs(mixed(*(told[name] for name in _KEYS)))
    some = runs.order[runs.begins]
    found = {name: told[name][some] for name in (*_KEYS, "reader", "account", "by_broker")}
    return found | {
        "lowest": runs.least(told["lowest"]),
        "highest": runs.most(told["highest"]),
        "at": runs.least(told["at"]),
    }


def _known(look: Look, groups: Groups) -> Windows:
    """The windows that say something, as `loss` has them."""
    told, texts = look.windows, look.filters
    way = Runs(mixed(told["queue"], told["group"], told["lane"]))
    queue = Runs(mixed(told["queue"], told["group"]))
    one_filter = queue.least(told["wanted"]) == queue.most(told["wanted"])
    began = queue.spread(np.where(one_filter, queue.least(told["at"]), FOREVER))
    alone = way.spread(way.count(np.ones(len(told["queue"]), np.bool_))) == 1
    by_tags = np.array([key for key, text in texts.items() if (text or "").startswith("TAG:")], np.uint64)
    attested = ~told["by_broker"].astype(np.bool_) & np.isin(told["reader"], groups.attested)
    resets = np.array(sorted(look.resets), np.uint64)
    said = np.isin(told["wanted"], by_tags) & ~np.isin(told["account"], resets)
    kept = np.flatnonzero(alone & said & ~attested)
    filters, wanted = np.unique(told["wanted"][kept], return_inverse=True)
    keys = mixed(told["queue"], told["group"], told["lane"])[kept]
    readers = {
        (int(group), bool(lane)) for group, lane in zip(told["group"][kept], told["lane"][kept], strict=True)
    }
    return Windows(
        Table.by(keys, np.arange(len(kept))),
        told["lowest"][kept],
        told["highest"][kept],
        began[kept],
        wanted,
        tuple(texts[int(key)] or "" for key in filters),
        tuple(sorted(readers)),
    )


def _least(keys: Hashes, times: Numbers) -> dict[int, int]:
    runs = Runs(keys)
    return dict(zip(runs.key[runs.begins].tolist(), runs.least(times).tolist(), strict=True))


def _greatest(keys: Hashes, numbers: Numbers) -> dict[int, int]:
    runs = Runs(keys)
    return dict(zip(runs.key[runs.begins].tolist(), runs.most(numbers).tolist(), strict=True))


def _table(numbers: Mapping[int, int]) -> Table:
    return Table.by(
        np.fromiter(numbers, np.uint64, len(numbers)), np.fromiter(numbers.values(), np.int64, len(numbers))
    )
