"""Topics and groups, as administrators create and delete them (6.18)."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

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
_RETRIES = 16
"""Attempt limit of a group whose settings have none."""
_MINUTE = 60


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
        config = replace(
            # Without attributes, those of the topic stay.
            _with_attributes(before or TopicConfig(name), request.frame.fields.get("attributes", "")),
            read_queues=request.number("readQueueNums", bits=32),
            write_queues=request.number("writeQueueNums", bits=32),
            permission=_PERMISSIONS[permission],
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
        before = self._group(name)
        config = replace(
            # Without attributes, those of the group stay.
            _bound(before or GroupConfig(name), body.get("attributes")),
            ordered=body.get("consumeMessageOrderly") is True,
            max_attempts=retries + 1,
            retry_policy=_policy(body.get("groupRetryPolicy")),
            consume_enabled=body.get("consumeEnable") is not False,
        )
        self._driver.run(self._core.create_group if before is None else self._core.update_group, config)
        return answer()

    def _group(self, name: str) -> GroupConfig | None:
        return next((group.config for group in self._core.groups() if group.config.name == name), None)

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
                "attributes": _binding(config),
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
    expiration = config.lite_expiration
    return {
        "attributes": {
            "message.type": config.type.name,
            **({} if expiration is None else {"lite.topic.expiration": str(ceil(expiration / _MINUTE))}),
        },
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


def _with_attributes(config: TopicConfig, attributes: str) -> TopicConfig:
    """Read `+message.type=FIFO,+lite.topic.expiration=5`, in minutes; other attributes are ignored."""
    values = dict(attribute.split("=", 1) for attribute in attributes.split(",") if "=" in attribute)
    if (name := values.get("+message.type")) is not None:
        if name not in TopicType.__members__:
            text = f"the message type {name[:40]!r} is none of {', '.join(TopicType.__members__)}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, text)
        config = replace(config, type=TopicType[name])
    if (minutes := values.get("+lite.topic.expiration")) is not None:
        seconds = _number(minutes) * _MINUTE
        config = replace(config, lite_expiration=seconds if seconds > 0 else None)
    return config


def _bound(config: GroupConfig, attributes: object) -> GroupConfig:
    """Read the attributes that bind a group to lite topics."""
    if not isinstance(attributes, dict) or not (topic := attributes.get("+lite.bind.topic")):
        return config
    return replace(
        config,
        lite_bind_topic=str(topic),
        lite_quota=_number(attributes.get("+lite.sub.client.quota", 0)),
        lite_exclusive=attributes.get("+lite.sub.model") == "Exclusive",
    )


def _binding(config: GroupConfig) -> dict[str, str]:
    if not config.lite_bind_topic:
        return {}
    return {
        "lite.bind.topic": config.lite_bind_topic,
        **({"lite.sub.client.quota": str(config.lite_quota)} if config.lite_quota else {}),
        **({"lite.sub.model": "Exclusive"} if config.lite_exclusive else {}),
    }


def _number(text: object) -> int:
    try:
        return int(str(text))
    except ValueError:
        text = f"an attribute is no number: {str(text)[:40]!r}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, text) from None
