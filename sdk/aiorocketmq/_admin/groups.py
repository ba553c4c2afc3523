"""Consumer groups on the masters of a cluster: settings, members and producers."""

from __future__ import annotations

import json
from collections.abc import Sequence

from aiorocketmq._admin.bodies import Connections, Settings, group_settings, parse_connections, parse_table
from aiorocketmq._admin.masters import Masters, reading
from aiorocketmq._admin.values import ExponentialBackoff, GroupMember, GroupSettings, ProducerClient
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.names import check_topic
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.errors import GroupNotFoundError, ServerError


def settings_body(
    group: str,
    *,
    ordered: bool | None = None,
    max_attempts: int | None = None,
    backoff: Sequence[float] | ExponentialBackoff | None = None,
    consume_enabled: bool | None = None,
) -> Settings:
    """Return the given settings in the servers' form; ValueError for values that no server accepts."""
    settings: Settings = {"groupName": group}
    if ordered is not None:
        settings["consumeMessageOrderly"] = ordered
    if max_attempts is not None:
        if max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, not {max_attempts!r}")
        settings["retryMaxTimes"] = max_attempts - 1
    if consume_enabled is not None:
        settings["consumeEnable"] = consume_enabled
    if backoff is not None:
        settings["groupRetryPolicy"] = _retry_policy(backoff)
    return settings


def lite_attributes(topic: str, quota: int, exclusive: bool) -> dict[str, str]:
    """Return the attributes of a group that is bound to the lite topics of `topic` (live-broker-session.md 7.2).

    ValueError for a malformed name."""
    check_topic(topic)
    attributes = {"+lite.bind.topic": topic}
    if quota:
        attributes["+lite.sub.client.quota"] = str(quota)
    if exclusive:
        attributes["+lite.sub.model"] = "Exclusive"
    return attributes


async def create(masters: Masters, group: str, settings: Settings) -> None:
    """Create `group` on every master, or replace all of its settings. Request 200."""
    body = json.dumps(settings).encode()
    await masters.on_each(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body, group=group)


async def alter(masters: Masters, group: str, settings: Settings) -> None:
    """Change these settings of `group` on every master that has it, and keep its others. Requests 201 and 200."""
    for address, current in (await _settings(masters, group)).items():
        # Without attributes, those of the group stay; sent back as received, they would be refused.
        kept = {name: value for name, value in current.items() if name != "attributes"}
        body = json.dumps({**kept, **settings}).encode()
        await masters.call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body, group=group)


async def delete(masters: Masters, group: str) -> None:
    """Delete `group` with its progress on every master. Request 207."""
    fields = {"groupName": group, "cleanOffset": "true"}
    await masters.on_each(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields, group=group)


async def describe(masters: Masters, group: str) -> tuple[GroupSettings, ...]:
    """The settings of `group` on each master that has it; raises GroupNotFoundError."""
    descriptions = []
    for address, settings in (await _settings(masters, group)).items():
        with reading(address, "settings of a group"):
            descriptions.append(group_settings(str(address), settings))
    return tuple(descriptions)


async def names(masters: Masters) -> tuple[str, ...]:
    """The names of the groups that any master has settings for, sorted."""
    return tuple(sorted(set().union(*(await _tables(masters)).values())))


async def check_known(masters: Masters, group: str) -> None:
    """Raise GroupNotFoundError unless a master has settings for `group`."""
    await _settings(masters, group)


async def members(masters: Masters, group: str) -> tuple[GroupMember, ...]:
    """Return the consumers that each master knows in `group`. Request 203."""
    group_members: list[GroupMember] = []
    for address in await masters.addresses():
        connected = await connections(masters, address, group)
        group_members += [
            GroupMember(
                client_id,
                host,
                language,
                str(address),
                version,
                connected.model,
                connected.start,
                connected.subscriptions,
            )
            for client_id, host, language, version in connected.clients
        ]
    return tuple(group_members)


async def connections(masters: Masters, address: Address, group: str) -> Connections:
    """Return the consumers that one master knows in `group`; empty if there are none."""
    answer = await masters.call(
        address,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        {"consumerGroup": group},
        group=group,
        accept=(ResponseCode.CONSUMER_NOT_ONLINE,),
    )
    if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
        return Connections([], "", "", {})
    with reading(address, "a list of consumers"):
        return parse_connections(answer.body)


async def producers(masters: Masters, group: str) -> tuple[ProducerClient, ...]:
    """The producers that each master knows in `group`. Request 204."""
    group_producers: list[ProducerClient] = []
    for address in await masters.addresses():
        fields = {"producerGroup": group}
        try:
            answer = await masters.call(
                address, RequestCode.GET_PRODUCER_CONNECTION_LIST, fields, group=group
            )
        except ServerError as error:
            if "not exist" in error.server_text:
                continue  # no member is connected
            raise
        with reading(address, "a list of producers"):
            clients = parse_connections(answer.body).clients
        group_producers += [
            ProducerClient(client_id, host, language, str(address), version)
            for client_id, host, language, version in clients
        ]
    return tuple(group_producers)


async def _tables(masters: Masters) -> dict[Address, dict[str, Settings]]:
    """Return the settings of all groups by master. Request 201: 352 would create the group that it names."""
    tables = {}
    for address, answer in (await masters.on_each(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {})).items():
        with reading(address, "a list of groups"):
            tables[address] = parse_table(answer.body, "subscriptionGroupTable")
    return tables


async def _settings(masters: Masters, group: str) -> dict[Address, Settings]:
    tables = await _tables(masters)
    by_master = {address: table[group] for address, table in tables.items() if group in table}
    if not by_master:
        raise GroupNotFoundError(
            f"the brokers at {masters} have no group {group!r}; {GroupNotFoundError.remedy}",
            endpoint=str(masters),
            group=group,
        )
    return by_master


def _retry_policy(backoff: Sequence[float] | ExponentialBackoff) -> Settings:
    if isinstance(backoff, ExponentialBackoff):
        return {
            "type": "EXPONENTIAL",
            "exponentialRetryPolicy": {
                "initial": round(backoff.initial * 1000),
                "max": round(backoff.maximum * 1000),
                "multiplier": backoff.multiplier,
            },
        }
    if not backoff or any(step < 0 for step in backoff):
        raise ValueError("backoff must hold at least one number of seconds, none of them negative")
    return {
        "type": "CUSTOMIZED",
        "customizedRetryPolicy": {"next": [round(step * 1000) for step in backoff]},
    }
