"""Topics and groups, as administrators create and delete them (6.18)."""

from __future__ import annotations

from aiorocketmq_fake.core.codes import Permission, TopicType
from aiorocketmq_fake.core.model import GroupConfig, TopicConfig
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.remoting.bodies import dump, load
from aiorocketmq_fake.edge.remoting.codes import RequestCode, RequestError, ResponseCode
from aiorocketmq_fake.edge.remoting.frames import Frame
from aiorocketmq_fake.edge.remoting.requests import Act, Request, answer

__all__ = ["Administration"]

_READ, _WRITE = 4, 2
_PERMISSIONS = {
    _READ: Permission.READ,
    _WRITE: Permission.WRITE,
    _READ | _WRITE: Permission.READ_WRITE,
    0: Permission.NONE,
}
_TYPE = "+message.type="
_RETRIES = 16
"""Failed attempts of a group whose settings do not say how many."""


class Administration:
    """The requests of administrators. A broker creates and deletes for itself alone."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._core = driver.core

    def acts(self) -> dict[int, Act]:
        """Return what to do for each request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put_topic,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete_topic,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put_group,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete_group,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.groups,
        }

    def put_topic(self, request: Request) -> Frame:
        """Create a topic, or replace the settings of one."""
        name = request.text("topic")
        permission = request.number("perm", _READ | _WRITE, bits=32) & (_READ | _WRITE)
        config = TopicConfig(
            name,
            _type(request.frame.fields.get("attributes", "")),
            request.number("readQueueNums", bits=32),
            request.number("writeQueueNums", bits=32),
            _PERMISSIONS[permission],
        )
        exists = self._core.topic(name) is not None
        self._driver.run(self._core.update_topic if exists else self._core.create_topic, config)
        return answer()

    def delete_topic(self, request: Request) -> Frame:
        """Delete a topic; an unknown one is as good as deleted."""
        name = request.text("topic")
        if self._core.topic(name) is not None:
            self._driver.run(self._core.delete_topic, name)
        return answer()

    def put_group(self, request: Request) -> Frame:
        """Create a group, or replace the settings of one."""
        body = load(request.frame.body)
        name, retries = body.get("groupName"), body.get("retryMaxTimes", _RETRIES)
        if not isinstance(name, str) or type(retries) is not int:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "groupName or retryMaxTimes cannot be read")
        config = GroupConfig(
            name,
            ordered=body.get("consumeMessageOrderly") is True,
            max_attempts=retries + 1,
            consume_enabled=body.get("consumeEnable") is not False,
        )
        exists = self._core.has_group(name)
        self._driver.run(self._core.update_group if exists else self._core.create_group, config)
        return answer()

    def groups(self, request: Request) -> Frame:
        """List the settings of all groups."""
        table = {}
        for group in self._core.groups():
            config = group.config
            table[config.name] = {
                "groupName": config.name,
                "consumeEnable": config.consume_enabled,
                "consumeMessageOrderly": config.ordered,
                "retryMaxTimes": config.max_attempts - 1,
                "retryQueueNums": 1,
            }
        return answer(body=dump({"forbiddenTable": {}, "subscriptionGroupTable": table}))

    def delete_group(self, request: Request) -> Frame:
        """Delete a group; an unknown one is as good as deleted."""
        name = request.text("groupName")
        if self._core.has_group(name):
            self._driver.run(self._core.delete_group, name)
        return answer()


def _type(attributes: str) -> TopicType:
    """Read `+message.type=FIFO`; other attributes are ignored."""
    for attribute in attributes.split(","):
        if attribute.startswith(_TYPE):
            name = attribute.removeprefix(_TYPE)
            if name not in TopicType.__members__:
                text = f"the message type {name[:40]!r} is none of {', '.join(TopicType.__members__)}"
                raise RequestError(ResponseCode.SYSTEM_ERROR, text)
            return TopicType[name]
    return TopicType.NORMAL
