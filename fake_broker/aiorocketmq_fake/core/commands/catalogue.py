"""The catalogue of topics and groups, as administrators change it."""

from aiorocketmq_fake.core.commands.delays import Delays
from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.lite_topics import LiteTopics
from aiorocketmq_fake.core.commands.pulling import Pulling
from aiorocketmq_fake.core.commands.receiving import Receiving
from aiorocketmq_fake.core.commands.registry import report_change
from aiorocketmq_fake.core.commands.transactions import Transactions
from aiorocketmq_fake.core.records.groups import Group
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, Refusal, TopicType
from aiorocketmq_fake.core.values.events import LeaseEnd, TopicChanged
from aiorocketmq_fake.core.values.model import GroupConfig, TopicConfig
from aiorocketmq_fake.core.values.names import check_group, retry_topic


class Catalogue:
    """The commands of administration."""

    def __init__(
        self,
        state: State,
        receiving: Receiving,
        pulling: Pulling,
        leasing: Leasing,
        delays: Delays,
        transactions: Transactions,
        lite: LiteTopics,
    ) -> None:
        self._state = state
        self._receiving = receiving
        self._pulling = pulling
        self._leasing = leasing
        self._delays = delays
        self._transactions = transactions
        self._lite = lite

    def create_topic(self, config: TopicConfig) -> None:
        """Add a topic."""
        state = self._state
        if config.name in state.topics:
            raise Refusal(Code.BAD_REQUEST, f"The topic {config.name} exists already.")
        state.check_topic(config.name)
        self._check_topic_config(config)
        state.topics[config.name] = Topic(config, state.new_entries)
        state.events.append(TopicChanged(state.at, config, deleted=False))

    def update_topic(self, config: TopicConfig) -> None:
        """Replace the settings of a topic."""
        state = self._state
        topic = self._topic(config.name)
        self._check_topic_config(config)
        topic.config = config
        topic.resize()
        state.events.append(TopicChanged(state.at, config, deleted=False))

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all that belongs to it."""
        state = self._state
        topic = self._topic(name)
        self._receiving.dismiss_topic(name)
        self._pulling.dismiss_topic(name)
        self._delays.forget_topic(name)
        self._transactions.forget_topic(name)
        self._lite.forget_topic(name)
        for group_name, topic_name in list(state.consumptions):
            if topic_name == name:
                self._forget(group_name, topic_name)
                state.topics.pop(retry_topic(group_name, topic_name), None)
        del state.topics[name]
        state.events.append(TopicChanged(state.at, topic.config, deleted=True))

    def create_group(self, config: GroupConfig) -> None:
        """Add a consumer group."""
        state = self._state
        if config.name in state.groups:
            raise Refusal(Code.BAD_REQUEST, f"The consumer group {config.name} exists already.")
        check_group(config.name)
        self._check_group_config(config)
        state.groups[config.name] = Group(config, state.log_end)
        report_change(state, config, deleted=False)

    def update_group(self, config: GroupConfig) -> None:
        """Replace the settings of a group; its order records end with a change between ordered and normal
        (R8.21)."""
        state = self._state
        group = self._group(config.name)
        self._check_group_config(config)
        if group.config.ordered != config.ordered:
            for (group_name, _), consumption in state.consumptions.items():
                if group_name == config.name:
                    consumption.forget_orders()
        group.config = config
        report_change(state, config, deleted=False)

    def delete_group(self, name: str) -> None:
        """Remove a group with all that belongs to it, except its dead letters."""
        state = self._state
        group = self._group(name)
        self._receiving.dismiss_group(name)
        for group_name, topic_name in list(state.consumptions):
            if group_name == name:
                self._forget(group_name, topic_name)
                if not state.profile.deleted_groups_leave_redeliveries:
                    state.topics.pop(retry_topic(name, topic_name), None)
        self._lite.forget_group(name)
        del state.groups[name]
        report_change(state, group.config, deleted=True)

    def _forget(self, group_name: str, topic_name: str) -> None:
        state = self._state
        consumption = state.consumptions.pop((group_name, topic_name))
        for lease in state.leases.all():
            if lease.consumption is consumption:
                self._leasing.drop(lease, LeaseEnd.DELETED)

    def _topic(self, name: str) -> Topic:
        topic = self._state.topics.get(name)
        if topic is None:
            raise Refusal(Code.TOPIC_NOT_FOUND, f"The topic {name} does not exist.")
        return topic

    def _group(self, name: str) -> Group:
        group = self._state.groups.get(name)
        if group is None:
            raise Refusal(Code.CONSUMER_GROUP_NOT_FOUND, f"The consumer group {name} does not exist.")
        return group

    def _check_topic_config(self, config: TopicConfig) -> None:
        for count in (config.read_queues, config.write_queues):
            if not 0 <= count <= limits.QUEUES_MAX:
                raise Refusal(Code.BAD_REQUEST, f"The queue count {count} is not 0 to {limits.QUEUES_MAX}.")
        if config.lite_expiration is not None:
            _check_span("The life of lite topics", config.lite_expiration)
        if config.lite_limit < 0:
            raise Refusal(Code.BAD_REQUEST, f"The number {config.lite_limit} of lite topics is negative.")
        if config.type is TopicType.MIXED and not self._state.profile.mixed_topics:
            raise Refusal(Code.BAD_REQUEST, "Topics of type MIXED are switched off on this server.")

    def _check_group_config(self, config: GroupConfig) -> None:
        if config.max_attempts < 1:
            raise Refusal(Code.BAD_REQUEST, f"The attempt limit {config.max_attempts} is not 1 or more.")
        policy = config.retry_policy
        if policy is not None and not policy.steps and not (policy.multiplier > 0 and policy.initial > 0):
            raise Refusal(Code.BAD_REQUEST, "The retry policy has neither steps nor exponential growth.")
        for step in policy.steps if policy is not None else ():
            _check_span("A step of the retry policy", step)
        if config.lite_quota < 0:
            raise Refusal(Code.BAD_REQUEST, f"The quota of {config.lite_quota} lite topics is negative.")


def _check_span(what: str, seconds: float) -> None:
    if not 0 <= seconds <= limits.SPAN_MAX:
        raise Refusal(Code.BAD_REQUEST, f"{what}, {seconds} s, is not 0 to {limits.SPAN_MAX:.0f}.")
