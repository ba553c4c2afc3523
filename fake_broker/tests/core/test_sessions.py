"""Clients, settings, heartbeats, termination, expiry, commands."""

from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import ClientType, Code, FilterType, Refusal, Surface
from aiorocketmq_fake.core.values.events import ClientJoined, ClientLeft
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    CommandForClient,
    FilterExpression,
    GroupConfig,
    MergedSettings,
    PrintStackTrace,
    ReconnectEndpoints,
    RetryPolicy,
    Subscription,
    VerifyMessage,
)


def consumer(group: str = "g", **fields: Any) -> ClientSettings:
    filters = fields.pop("filters", ())
    fields = {"client_type": ClientType.PUSH_CONSUMER, **fields}
    return ClientSettings(subscription=Subscription(group, filters), **fields)


def settings(desk: Any, value: ClientSettings, client_id: str = "x") -> MergedSettings:
    answer: MergedSettings = desk.broker.settings(client_id, value, now=desk.now)
    return answer


def refused(desk: Any, value: ClientSettings) -> tuple[Code, Surface]:
    with pytest.raises(Refusal) as caught:
        settings(desk, value)
    return caught.value.code, caught.value.surface


def test_settings_have_a_producers_limits(desk: Any) -> None:
    """Table 2.2."""
    assert settings(desk, ClientSettings(ClientType.PRODUCER, topics=("t", "unknown"))) == MergedSettings(
        3,
        RetryPolicy(initial=0.01, maximum=1.0, multiplier=2.0),
        max_body_size=4_194_304,
        validate_message_type=True,
    )


@pytest.mark.parametrize("client_type", [ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER])
def test_settings_have_a_consumers_group(make_desk: Any, client_type: ClientType) -> None:
    desk = make_desk(ordered=True, max_attempts=6)
    sent = consumer(
        client_type=client_type, fifo=False, receive_batch_size=7, long_polling=1.0, max_attempts=99
    )
    answer = settings(desk, sent)
    assert answer == MergedSettings(
        6,
        RetryPolicy(tuple(map(float, desk.profile.backoff.value))),
        fifo=True,
        receive_batch_size=32,
        long_polling=20.0,
        lite_subscription_quota=desk.profile.lite_subscription_quota * desk.profile.lite_limits_for_all,
        max_lite_topic_size=desk.profile.max_lite_topic_size * desk.profile.lite_limits_for_all,
    )


def test_the_two_retry_tables(documented: Any, apache: Any) -> None:
    """O1."""
    tables = [settings(desk, consumer()).retry_policy for desk in (documented, apache)]
    assert [policy.steps[:3] for policy in tables if policy] == [(10.0, 30.0, 60.0), (1.0, 5.0, 10.0)]
    assert [len(policy.steps) for policy in tables if policy] == [16, 18]
    assert [policy.steps[-1] for policy in tables if policy] == [7200.0, 7200.0]


def test_settings_have_a_groups_own_policy(desk: Any) -> None:
    policy = RetryPolicy(initial=5.0, maximum=7200.0, multiplier=2.0)
    desk.broker.update_group(GroupConfig("g", retry_policy=policy), now=desk.now)
    assert settings(desk, consumer()).retry_policy == policy


def test_settings_may_be_sent_again_and_the_last_count(desk: Any) -> None:
    settings(desk, consumer())
    settings(desk, ClientSettings(ClientType.PRODUCER, topics=()))
    (snapshot,) = [client for client in desk.broker.clients() if client.client_id == "x"]
    assert snapshot.settings.client_type is ClientType.PRODUCER
    assert [event.client_id for event in desk.seen(ClientJoined)] == ["c", "x"]


def test_a_real_server_refuses_settings_of_an_unknown_group(apache: Any) -> None:
    """Consumption §11.22."""
    assert refused(apache, consumer("new")) == (Code.BAD_REQUEST, Surface.STREAM)
    assert [client.client_id for client in apache.broker.clients()] == ["c"]


def test_the_contract_answers_an_unknown_group_with_what_the_client_sent(documented: Any) -> None:
    """R2.9."""
    sent = consumer("new", fifo=True, receive_batch_size=7, long_polling=1.0, max_attempts=5)
    answer = settings(documented, sent)
    assert (answer.fifo, answer.receive_batch_size, answer.long_polling, answer.max_attempts) == (
        True,
        7,
        1.0,
        5,
    )
    assert settings(documented, consumer("new")).max_attempts == 17


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (ClientSettings(), Code.BAD_REQUEST),
        (ClientSettings(topics=("a b",)), Code.ILLEGAL_TOPIC),
        (ClientSettings(topics=("TBW102",)), Code.ILLEGAL_TOPIC),
        (consumer(""), Code.ILLEGAL_CONSUMER_GROUP),
        (consumer("g" * 121), Code.ILLEGAL_CONSUMER_GROUP),
        (consumer("CID_RMQ_SYS_x"), Code.ILLEGAL_CONSUMER_GROUP),
        (consumer(client_type=ClientType.UNSPECIFIED), Code.INTERNAL_SERVER_ERROR),
        (consumer(client_type=ClientType.PRODUCER), Code.INTERNAL_SERVER_ERROR),
        (consumer(client_type=ClientType.LITE_PUSH_CONSUMER), Code.BAD_REQUEST),
        (consumer(filters=(("t", FilterExpression("", FilterType.SQL)),)), Code.ILLEGAL_FILTER_EXPRESSION),
    ],
)
def test_settings_that_end_the_stream(desk: Any, value: ClientSettings, code: Code) -> None:
    """Session §2.2, §2.3."""
    assert refused(desk, value) == (code, Surface.STREAM)


@pytest.mark.parametrize(
    "filters",
    [
        (),
        (("t", FilterExpression("")),),
        (("a b", FilterExpression("*")),),
        (("unknown", FilterExpression("a = =", FilterType.SQL)),),
    ],
)
def test_subscriptions_are_hardly_looked_at(desk: Any, filters: Any) -> None:
    """Consumption §11.23."""
    assert settings(desk, consumer(filters=filters)) == settings(desk, consumer(), client_id="y")


def test_pull_consumers_are_known_to_the_contract_only(documented: Any, apache: Any) -> None:
    settings(documented, consumer(client_type=ClientType.PULL_CONSUMER))
    assert refused(apache, consumer(client_type=ClientType.PULL_CONSUMER))[0] is Code.INTERNAL_SERVER_ERROR


def heartbeat(desk: Any, client_id: str = "c", group: str = "g") -> Code:
    try:
        desk.broker.heartbeat(client_id, group, now=desk.now)
    except Refusal as refusal:
        return refusal.code
    return Code.OK


def test_a_refused_heartbeat_is_a_status_not_the_end_of_a_stream(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        desk.broker.heartbeat("stranger", "g", now=desk.now)
    assert caught.value.surface is Surface.STATUS


def test_heartbeats(desk: Any) -> None:
    """R2.14, session §2.5."""
    desk.add_group("h")
    settings(desk, ClientSettings(ClientType.PRODUCER, topics=("t",)), "p")
    assert heartbeat(desk) is Code.OK
    assert heartbeat(desk, group="h") is Code.OK
    assert heartbeat(desk, "p", "") is Code.OK
    assert heartbeat(desk, "stranger") is Code.UNRECOGNIZED_CLIENT_TYPE
    assert heartbeat(desk, group="") is Code.ILLEGAL_CONSUMER_GROUP
    assert {group.config.name: group.client_ids for group in desk.broker.groups()} == {
        "g": ("c",),
        "h": ("c",),
    }


def test_a_heartbeat_for_an_unknown_group(documented: Any, apache: Any) -> None:
    assert heartbeat(documented, group="new") is Code.OK
    assert heartbeat(apache, group="new") is Code.ILLEGAL_CONSUMER_GROUP


def terminate(desk: Any, client_id: str = "c", group: str = "g") -> Code:
    try:
        desk.broker.terminate(client_id, group, now=desk.now)
    except Refusal as refusal:
        return refusal.code
    return Code.OK


def test_a_terminated_client_is_unknown(desk: Any) -> None:
    assert terminate(desk) is Code.OK
    assert terminate(desk) is Code.UNRECOGNIZED_CLIENT_TYPE
    assert heartbeat(desk) is Code.UNRECOGNIZED_CLIENT_TYPE
    with pytest.raises(Refusal):
        desk.ask()
    (left,) = desk.seen(ClientLeft)
    assert (left.client_id, left.expired) == ("c", False)


def test_a_producer_terminates_without_group(desk: Any) -> None:
    settings(desk, ClientSettings(ClientType.PRODUCER, topics=("t",)), "p")
    assert terminate(desk, "p", "") is Code.OK


def test_an_illegal_termination_unregisters_on_real_servers(documented: Any, apache: Any) -> None:
    """R2.16."""
    for desk in (documented, apache):
        assert terminate(desk, group="") is Code.ILLEGAL_CONSUMER_GROUP
    assert heartbeat(documented) is Code.OK
    assert heartbeat(apache) is Code.UNRECOGNIZED_CLIENT_TYPE


def test_silent_clients_are_forgotten_after_two_minutes(desk: Any) -> None:
    """R2.15, session §2.6: producers and consumers alike."""
    settings(desk, ClientSettings(ClientType.PRODUCER, topics=("t",)), "p")
    desk.wait(119.0, heartbeats=False)
    assert heartbeat(desk) is Code.OK
    desk.wait(1.0, heartbeats=False)
    assert [client.client_id for client in desk.broker.clients()] == ["c"]
    desk.wait(118.999, heartbeats=False)
    assert heartbeat(desk) is Code.OK
    assert desk.broker.next_deadline() == pytest.approx(desk.now + 120.0)


def test_keeping_an_unknown_client_alive_does_nothing(desk: Any) -> None:
    desk.broker.keep_alive("stranger", now=desk.now)
    assert [client.client_id for client in desk.broker.clients()] == ["c"]


def test_commands_for_clients_are_outputs_with_a_nonce(desk: Any) -> None:
    desk.send("m")
    (message,) = desk.broker.messages("t")
    nonces = [
        desk.broker.verify_message("c", message, now=desk.now),
        desk.broker.print_stack_trace("c", now=desk.now),
        desk.broker.reconnect_endpoints("c", now=desk.now),
    ]
    assert desk.broker.take_outputs() == (
        CommandForClient("c", VerifyMessage(nonces[0], message)),
        CommandForClient("c", PrintStackTrace(nonces[1])),
        CommandForClient("c", ReconnectEndpoints(nonces[2])),
    )
    assert len(set(nonces)) == 3


def test_a_command_for_an_unknown_client_is_refused(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        desk.broker.print_stack_trace("stranger", now=desk.now)
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.parametrize(
    "properties",
    [
        {f"k{number}": "v" for number in range(33)},
        {"k" * 65: "v"},
        {"1k": "v"},
        {"": "v"},
        {"k y": "v"},
        {"k": "v" * 257},
        {f"k{number:02}": "v" * 250 for number in range(17)},
    ],
    ids=["33", "long key", "digit first", "no key", "blank in key", "long value", "4 KiB and more"],
)
def test_client_properties_have_limits_in_the_contract_only(
    documented: Any, apache: Any, properties: dict[str, str]
) -> None:
    """R2.18."""
    value = ClientSettings(ClientType.PRODUCER, topics=("t",), properties=properties)
    assert refused(documented, value) == (Code.INVALID_CLIENT_PROPERTIES, Surface.STREAM)
    assert settings(apache, value).max_attempts == 3


def test_client_properties_within_the_limits_are_welcome(desk: Any) -> None:
    properties = {"a." + "k" * 61 + "-": "v" * 256, **{f"k_{number}": "v" for number in range(31)}}
    plain = ClientSettings(ClientType.PRODUCER, topics=("t",))
    assert settings(desk, replace(plain, properties=properties)) == settings(desk, plain)


def test_an_id_that_is_used_again_is_the_same_client_with_new_settings(desk: Any) -> None:
    """R12.6: a new process with an old id does not join again, and its own settings apply from now on."""
    settings(desk, consumer(), "again")
    settings(desk, ClientSettings(ClientType.PRODUCER, topics=("t",)), "again")
    assert [event.client_id for event in desk.seen(ClientJoined)].count("again") == 1
    (client,) = (client for client in desk.broker.clients() if client.client_id == "again")
    assert client.settings.client_type is ClientType.PRODUCER


def test_a_real_server_has_no_simple_lite_consumers(apache: Any) -> None:
    """Session §2.3."""
    value = consumer(client_type=ClientType.LITE_SIMPLE_CONSUMER)
    assert refused(apache, value) == (Code.INTERNAL_SERVER_ERROR, Surface.STREAM)
