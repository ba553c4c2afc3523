"""Routes and clusters as name servers write them."""

from __future__ import annotations

import json

import pytest
from aiorocketmq._core.endpoint import Address, parse_addresses
from aiorocketmq._remoting.routes import (
    BrokerAddresses,
    QueueCounts,
    parse_cluster,
    parse_names,
    parse_route,
)

ROUTE = b"""{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.9:10911","1":"fe80::1:10911"},"brokerName":"broker-a",
"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[
{"brokerName":"broker-a","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]}"""


def test_a_strict_route_is_read() -> None:
    route = parse_route(ROUTE)
    assert route.queues == (QueueCounts("broker-a", readable=8, writable=4, permission=6),)
    (broker,) = route.brokers
    assert broker.master == Address("10.0.0.9", 10911)
    assert broker.addresses[1] == Address("fe80::1", 10911)


def test_of_a_broker_that_is_listed_twice_the_first_entry_counts() -> None:
    """Queues of equal names would be shared twice in a group, which stops its members."""
    other = ROUTE.replace(b'"perm":6', b'"perm":4').replace(b"10911", b"10921")
    lists = [json.loads(body) for body in (ROUTE, other)]
    both = {key: lists[0][key] + lists[1][key] for key in ("brokerDatas", "queueDatas")}
    assert parse_route(json.dumps(both).encode()) == parse_route(ROUTE)


def test_a_loose_cluster_is_read() -> None:
    body = (
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{1:"h:2"},"brokerName":"b","cluster":"c"}},'
        b'"clusterAddrTable":{"c":["b"]}}'
    )
    (broker,) = parse_cluster(body)
    assert broker == BrokerAddresses("b", "c", {1: Address("h", 2)})
    assert broker.master is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        ROUTE.replace(b"8", b'"8"'),
        ROUTE.replace(b":10911", b":x"),
        ROUTE.replace(b"8", b"2147483647"),
        ROUTE.replace(b'"perm":6', b'"perm":1%s' % (b"0" * 30)),
        ROUTE.replace(b"broker-a", b"broker\\n"),
        ROUTE.replace(b"broker-a", b"b" * 256),
        ROUTE.replace(b"broker-a", b"\\ud800"),
    ],
)
def test_a_body_that_is_no_route_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  any reason will do
        parse_route(body)


def test_names_come_sorted_from_a_list() -> None:
    assert parse_names(b'{"topicList":["b","a"]}', "topicList") == ("a", "b")
    assert parse_names(b"{}", "topicList") == ()


def test_name_servers_may_be_several_host_names() -> None:
    assert parse_addresses("ns1:9876;ns2:9877;") == (Address("ns1", 9876), Address("ns2", 9877))
