"""What a name server answers: routes, the brokers of the cluster, the names of topics (6.1, 6.18)."""

from __future__ import annotations

from collections.abc import Iterator

from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Permission, TopicType
from aiorocketmq_fake.core.values.model import TopicConfig
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.endpoint import join
from aiorocketmq_fake.edge.peers import PeerBroker, PeerBrokers
from aiorocketmq_fake.edge.remoting.bodies import dump, dump_loose
from aiorocketmq_fake.edge.remoting.frames import Frame
from aiorocketmq_fake.edge.remoting.requests import Act, Request, answer
from aiorocketmq_fake.edge.remoting_codes import RequestCode, ResponseCode

__all__ = ["Routes"]

_STRICT_SINCE = 401
"""Clients from this version on read maps with quoted numbers as keys."""
_PERMISSIONS = {Permission.READ: 4, Permission.WRITE: 2, Permission.READ_WRITE: 6}
_READ_WRITE_INHERIT = 7
_DEFAULT = TopicConfig(
    limits.DEFAULT_TOPIC, TopicType.NORMAL, limits.CLASSIC_QUEUES_MAX, limits.CLASSIC_QUEUES_MAX
)


class Routes:
    """The requests of a name server. Every broker of the cluster is one, and knows all brokers."""

    def __init__(self, driver: Driver, peers: PeerBrokers) -> None:
        self._driver = driver
        self._peers = peers

    def acts(self) -> dict[int, Act]:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.topics,
            # Every broker deletes the topic by itself.
            RequestCode.DELETE_TOPIC_IN_NAMESRV: lambda request: answer(),
        }

    def route(self, request: Request) -> Frame:
        """Return the route of a topic."""
        name = request.frame.fields.get("topic", "null")
        brokers: list[object] = []
        queues: list[object] = []
        is_strict = request.frame.version >= _STRICT_SINCE or request.truth("acceptStandardJsonOnly")
        for member in self._listed():
            core = member.driver.core
            is_default = name == limits.DEFAULT_TOPIC and core.profile.auto_create_topics
            config = _DEFAULT if is_default else core.topic(name)
            if config is None:
                continue
            queues.append(_queue_data(config, member.driver.core.name))
            brokers.append(self._broker_data(member, request, is_strict=is_strict))
        if not brokers:
            text = f"No topic route info in name server for the topic: {name}"
            return answer(code=ResponseCode.TOPIC_NOT_EXIST, remark=text)
        body = {"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues}
        return answer(body=dump(body) if is_strict else dump_loose(body))

    def cluster(self, request: Request) -> Frame:
        """Return the brokers of the cluster; only in the dialect with numbers as keys."""
        members = list(self._listed())
        brokers = {
            member.driver.core.name: self._broker_data(member, request, is_strict=False) for member in members
        }
        names = {"clusterAddrTable": {self._driver.core.cluster: sorted(brokers)}}
        return answer(body=dump_loose({"brokerAddrTable": brokers, **names}))

    def topics(self, request: Request) -> Frame:
        """Return the names of all topics."""
        names = set()
        for member in self._listed():
            core = member.driver.core
            names |= {topic.config.name for topic in core.topics()}
            if core.profile.auto_create_topics:
                names.add(limits.DEFAULT_TOPIC)
        return answer(body=dump({"topicList": sorted(names)}))

    def _listed(self) -> Iterator[PeerBroker]:
        return self._peers.listed(self._driver)

    def _broker_data(self, member: PeerBroker, request: Request, *, is_strict: bool) -> dict[str, object]:
        address = member.remoting
        assert address is not None, "only brokers with a port for this protocol are listed"
        # A broker on a wildcard has the address that the client used.
        host = request.peer.local_host if address.follows_clients else address.reachable_host
        place = join(host, address.port)
        return {
            "brokerAddrs": {"0": place} if is_strict else [(0, place)],
            "brokerName": member.driver.core.name,
            "cluster": member.driver.core.cluster,
            "enableActingMaster": False,
        }


def _queue_data(config: TopicConfig, broker: str) -> dict[str, object]:
    permission = _PERMISSIONS.get(config.permission, 0)
    return {
        "brokerName": broker,
        "perm": _READ_WRITE_INHERIT if config is _DEFAULT else permission,
        "readQueueNums": config.read_queues,
        "topicSysFlag": 0,
        "writeQueueNums": config.write_queues,
    }
