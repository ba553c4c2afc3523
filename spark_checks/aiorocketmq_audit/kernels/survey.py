"""The first look: what must be known of all events before any of them is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.kernels import recorders
from aiorocketmq_audit.kernels.blocks import Runs
from aiorocketmq_audit.kernels.events import NONE, Events, Mask, Numbers
from aiorocketmq_audit.kernels.passed import lanes
from aiorocketmq_audit.kernels.places import queues, topics, transactions
from aiorocketmq_audit.kernels.polls import merged as all_polls, polls
from aiorocketmq_audit.kernels.question import (
    ACCOUNT,
    FOREVER,
    Drains,
    Polls,
    Settings,
    Survey,
    Table,
    Windows,
)
from aiorocketmq_audit.kernels.texts import NOBODY, Hashes, hash_of, mixed

MOST_WINDOWS = 500_000
"""Windows that a process has to hold, at most: where message groups are as many as messages, Spark has to find what was
passed over."""

MOST_COMMITS = 500_000
"""The same of committed transactions, without which nobody knows what a drain proves."""

_KEYS = ("queue", "group", "lane", "wanted")


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
    committed: Mapping[int, int] | None
    polls: Polls | None
    readers: Mapping[str, NDArray[Any]]
    filters: Mapping[int, str | None]


def look(settings: Settings, events: Events) -> Look:
    """Look at a piece of the recording."""
    lost = events.some(
        events.one_of("kind", "receive")
        & events.one_of("phase", "info")
        & events.one_of("observer", "client")
    )
    starts, resets, trims, drains, ends = (
        events.some(events.one_of("kind", kind))
        for kind in ("recorder.start", "reset", "trim", "drain.ok", "tx.end")
    )
    drains = drains.some(drains.known("topic") & drains.known("group"))
    commits = ends.some(
        ends.one_of("phase", "ok") & ends.one_of("resolution", "commit") & ends.known("tx_id")
    )
    return Look(
        recorders=recorders.by_kind(events),
        lost=_least(lost.together(*ACCOUNT, "group"), lost.called()),
        began=_least(starts.together(*ACCOUNT), starts.number("t_wall_us")),
        resets=frozenset(resets.together(*ACCOUNT, "group").tolist()),
        left=_greatest(queues(trims), trims.number("commit_offset")),
        windows=_windows(settings, events),
        drained=_greatest(topics(drains), drains.called()),
        committed=_least(transactions(commits), commits.number("t_wall_us")),
        polls=polls(settings, events),
        readers=_readers(settings, events),
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
        committed=_few([each.committed for each in seen]),
        polls=all_polls([each.polls for each in seen]),
        readers=_all_of([each.readers for each in seen], _first),
        filters={key: text for each in seen for key, text in each.filters.items()},
    )


def survey(look: Look) -> Survey:
    """What all that was seen comes to."""
    return Survey(
        lost_at=_table(look.lost),
        began=_table(look.began),
        left_from=_table(look.left),
        drained=_table(look.drained),
        committed=None if look.committed is None else _table(look.committed),
        polls=look.polls,
        windows=_known(look) if look.windows else None,
        drains=_drains(look) if look.drained else None,
    )


def _united(parts: Iterable[Mapping[int, int]], chosen: Callable[[int, int], int]) -> dict[int, int]:
    total: dict[int, int] = {}
    for part in parts:
        for key, number in part.items():
            total[key] = chosen(number, total.get(key, number))
    return total


def _few(parts: Sequence[Mapping[int, int] | None]) -> dict[int, int] | None:
    """All of them, unless one is too many."""
    told = [part for part in parts if part is not None]
    total = _united(told, min)
    return total if len(told) == len(parts) and len(total) <= MOST_COMMITS else None


def _all_of(
    parts: Sequence[Mapping[str, NDArray[Any]]],
    folded: Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]],
) -> dict[str, NDArray[Any]]:
    return (
        folded({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        if all(parts)
        else {}
    )


def _windows(settings: Settings, events: Events) -> dict[str, NDArray[Any]]:
    """By queue, group, message group and filter: from where to where first attempts were handed out."""
    first = events.one_of("kind", "deliver") & (events.number("attempt") == 1) & events.told("offset")
    events = events.some(first & events.known("group") & ~events.one_of("role", "pull"))
    is_free = settings.ordered[settings.of(events)] == 0
    told = {
        "queue": queues(events),
        "group": events.text("group"),
        "lane": np.where(is_free, np.uint64(0), lanes(events)),
        "wanted": events.text("filter"),
        "account": events.together(*ACCOUNT, "group"),
        "attested": _is_attested(settings, events),
    }
    offset = events.number("offset")
    return _folded(told | {"lowest": offset, "highest": offset, "at": events.number("t_wall_us")})


def _is_attested(settings: Settings, events: Events) -> Mask:
    """Whether the broker gives an account of the group, too: it knows what clients can only suspect."""
    return settings.told_by_broker[settings.of(events)] & ~events.one_of("observer", "broker")


def _readers(settings: Settings, events: Events) -> dict[str, NDArray[Any]]:
    """By topic, group and filter: since when something was asked for, or came."""
    events = events.some(
        events.one_of("kind", "deliver", "receive") & events.known("topic") & events.known("group")
    )
    wanted = np.where(events.known("filter"), events.text("filter"), np.uint64(hash_of("?")))
    told = {
        "key": topics(events),
        "wanted": np.where(events.one_of("kind", "deliver"), wanted, NOBODY),
        "group": events.text("group"),
        "account": events.together(*ACCOUNT, "group"),
        "attested": _is_attested(settings, events),
        "at": events.called(),
    }
    return _first(told)


def _first(told: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """One row for each topic, group and filter."""
    runs = Runs(mixed(told["key"], told["wanted"]))
    return {name: runs.first(column) for name, column in told.items()} | {"at": runs.least(told["at"])}


def _drains(look: Look) -> Drains:
    """Groups that were drained, and what they had to have settled by then: as `drained` has them."""
    told, texts = look.readers, look.filters
    runs = Runs(told["key"])
    filters = runs.count(told["wanted"] != NOBODY)
    # Who was handed nothing at all has told no filter: it wants everything, as far as anybody knows.
    wanted = [(texts.get(int(key)) or "") if key else "TAG:*" for key in runs.most(told["wanted"]).tolist()]
    key = runs.first(told["key"])
    ended = _table(look.drained).of(key, NONE)
    known = (filters <= 1) & np.array([text.startswith("TAG:") for text in wanted], np.bool_)
    left_out = runs.first(told["attested"]) | np.isin(runs.first(told["account"]), _sorted(look.resets))
    kept = np.flatnonzero(known & (ended != NONE) & ~left_out)
    names, which = np.unique([wanted[place] for place in kept], return_inverse=True)
    return Drains(
        Table.by(key[kept], np.arange(len(kept))),
        runs.least(told["at"])[kept],
        ended[kept],
        which,
        tuple(names.tolist()),
        tuple(np.unique(runs.first(told["group"])[kept]).tolist()),
    )


def _sorted(keys: Iterable[int]) -> Hashes:
    return np.array(sorted(keys), np.uint64)


def _folded(told: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """One row for each of the keys."""
    runs = Runs(mixed(*(told[name] for name in _KEYS)))
    return {name: runs.first(told[name]) for name in (*_KEYS, "account", "attested")} | {
        "lowest": runs.least(told["lowest"]),
        "highest": runs.most(told["highest"]),
        "at": runs.least(told["at"]),
    }


def _known(look: Look) -> Windows:
    """The windows that say something, as `loss` has them."""
    told, texts = look.windows, look.filters
    way = Runs(mixed(told["queue"], told["group"], told["lane"]))
    queue = Runs(mixed(told["queue"], told["group"]))
    one_filter = queue.least(told["wanted"]) == queue.most(told["wanted"])
    began = queue.spread(np.where(one_filter, queue.least(told["at"]), FOREVER))
    alone = way.spread(way.lengths) == 1
    by_tags = np.array([key for key, text in texts.items() if (text or "").startswith("TAG:")], np.uint64)
    said = np.isin(told["wanted"], by_tags) & ~np.isin(told["account"], _sorted(look.resets))
    kept = np.flatnonzero(alone & said & ~told["attested"])
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
    return dict(zip(runs.first(keys).tolist(), runs.least(times).tolist(), strict=True))


def _greatest(keys: Hashes, numbers: Numbers) -> dict[int, int]:
    runs = Runs(keys)
    return dict(zip(runs.first(keys).tolist(), runs.most(numbers).tolist(), strict=True))


def _table(numbers: Mapping[int, int]) -> Table:
    return Table.by(
        np.fromiter(numbers, np.uint64, len(numbers)), np.fromiter(numbers.values(), np.int64, len(numbers))
    )
