"""Topics and groups, as administrators create and delete them (6.18)."""

from __future__ import annotations

from aiorocketmq_fake.core.values.codes import Permission, TopicType
from aiorocketmq_fake.core.values.model import GroupConfig, RetryPolicy, TopicConfig
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.remoting.bodies import dump, load
from aiorocketmq_fake.edge.remoting.frames import Frame
from aiorocketmq_fake.edge.remoting.requests import Act, Request, answer
from aiorocketmq_fake.edge.remoting_codes import RequestCode, RequestError, ResponseCode

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
"""Attempt limit of a group whose settings have none."""


class Administration:
    """The requests of administrators. A broker creates and deletes for itself alone."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._core = driver.core

    def acts(self) -> dict[int, Act]:
        """Return the handler of each request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put_topic,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete_topic,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put_group,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete_group,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.groups,
            RequestCode.GET_TOPIC_CONFIG: self.topic,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.topics,
        }

    def put_topic(self, request: Request) -> Frame:
        """Create a topic, or replace the settings of one."""
        name = request.text("topic")
        permission = request.number("perm", _READ | _WRITE, bits=32) & (_READ | _WRITE)
        before = self._core.topic(name)
        config = TopicConfig(
            name,
            # Without attributes, those of the topic stay.
            _type(request.frame.fields.get("attributes", ""), before),
            request.number("readQueueNums", bits=32),
            request.number("writeQueueNums", bits=32),
            _PERMISSIONS[permission],
        )
        self._driver.run(self._core.create_topic if before is None else self._core.update_topic, config)
        return answer()

    def delete_topic(self, request: Request) -> Frame:
        """Delete a topic; an unknown one counts as deleted."""
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
            retry_policy=_policy(body.get("groupRetryPolicy")),
            consume_enabled=body.get("consumeEnable") is not False,
        )
        exists = self._core.has_group(name)
        self._driver.run(self._core.update_group if exists else self._core.create_group, config)
        return answer()

    def groups(self, request: Request) -> Frame:
        """Return the settings of all groups."""
        table = {}
        for group in self._core.groups():
            config = group.config
            table[config.name] = {
                "groupName": config.name,
                "consumeEnable": config.consume_enabled,
                "consumeMessageOrderly": config.ordered,
                "retryMaxTimes": config.max_attempts - 1,
                "retryQueueNums": 1,
                **({} if config.retry_policy is None else {"groupRetryPolicy": _plain(config.retry_policy)}),
            }
        return answer(body=dump({"forbiddenTable": {}, "subscriptionGroupTable": table}))

    def delete_group(self, request: Request) -> Frame:
        """Delete a group; an unknown one counts as deleted."""
        name = request.text("groupName")
        if self._core.has_group(name):
            self._driver.run(self._core.delete_group, name)
        return answer()

    def topic(self, request: Request) -> Frame:
        """Return the settings of a topic."""
        name = request.text("topic")
        config = self._core.topic(name)
        if config is None:
            return answer(code=ResponseCode.TOPIC_NOT_EXIST, remark=f"No topic in this broker. topic: {name}")
        return answer(body=dump(_settings(config)))

    def topics(self, request: Request) -> Frame:
        """Return the settings of all topics."""
        table = {each.config.name: _settings(each.config) for each in self._core.topics()}
        return answer(body=dump({"topicConfigTable": table}))


def _settings(config: TopicConfig) -> dict[str, object]:
    numbers = {permission: number for number, permission in _PERMISSIONS.items()}
    return {
        "attributes": {"message.type": config.type.name},
        "order": False,
        "perm": numbers[config.permission],
        "readQueueNums": config.read_queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": config.name,
        "topicSysFlag": 0,
        "writeQueueNums": config.write_queues,
    }


def _policy(policy: object) -> RetryPolicy | None:
    """Read back-off of either kind; None without one that can be parsed."""
    if not isinstance(policy, dict):
        return None
    listed, grows = policy.get("customizedRetryPolicy"), policy.get("exponentialRetryPolicy")
    try:
        if isinstance(listed, dict):
            return RetryPolicy(steps=tuple(step / 1000 for step in listed["next"]))
        if isinstance(grows, dict):
            return RetryPolicy(
                initial=grows["initial"] / 1000, maximum=grows["max"] / 1000, multiplier=grows["multiplier"]
            )
    except (KeyError, TypeError) as error:
        text = f"groupRetryPolicy cannot be read: {error!r}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, text) from error
    return None


def _plain(policy: RetryPolicy) -> dict[str, object]:
    if not policy.multiplier:
        steps = [round(step * 1000) for step in policy.steps]
        return {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": steps}}
    return {
        "type": "EXPONENTIAL",
        "exponentialRetryPolicy": {
            "initial": round(policy.initial * 1000),
            "max": round(policy.maximum * 1000),
            "multiplier": int(policy.multiplier),
        },
    }


def _type(attributes: str, before: TopicConfig | None) -> TopicType:
    """Read `+message.type=FIFO`; other attributes are ignored."""
    for attribute in attributes.split(","):
        if attribute.startswith(_TYPE):
            name = attribute.removeprefix(_TYPE)
            if name not in TopicType.__members__:
                text = f"the message type {name[:40]!r} is none of {', '.join(TopicType.__members__)}"
                raise RequestError(ResponseCode.SYSTEM_ERROR, text)
            return TopicType[name]
    return TopicType.NORMAL if before is None else before.type
