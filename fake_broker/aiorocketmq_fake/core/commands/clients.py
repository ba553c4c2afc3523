"""Clients: their settings, registration and expiry (2)."""

from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.lite_subscriptions import LITE_CLIENTS, LiteSubscriptions, lite_quota
from aiorocketmq_fake.core.commands.registry import check_session_group, session_group
from aiorocketmq_fake.core.filters.expressions import parse
from aiorocketmq_fake.core.records.clients import Client
from aiorocketmq_fake.core.records.groups import Group, retry_policy
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import ClientType, Code, Refusal, Surface
from aiorocketmq_fake.core.values.events import ClientJoined, ClientLeft
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    Command,
    CommandForClient,
    MergedSettings,
    RetryPolicy,
    Subscription,
)
from aiorocketmq_fake.core.values.names import check_client_properties


class Clients:
    """The commands of sessions."""

    def __init__(self, state: State, leasing: Leasing, lite: LiteSubscriptions) -> None:
        self._state = state
        self._leasing = leasing
        self._lite = lite

    def settings(self, client_id: str, settings: ClientSettings) -> MergedSettings:
        """Store a client's settings and return the merged ones (2.1, 2.2)."""
        self._check(settings)
        state = self._state
        client = state.clients.get(client_id)
        if client is None:
            client = state.clients[client_id] = Client(client_id, settings, state.now)
            state.events.append(ClientJoined(state.at, client_id, settings.client_type, client.group))
        client.settings = settings
        client.reachable = True
        if client.group:
            client.groups.add(client.group)
        self._touch(client)
        return self._merge(settings)

    def heartbeat(self, client_id: str, group: str) -> None:
        """Keep a client registered, a consumer in the group of the call (R2.14)."""
        state = self._state
        client = state.clients.get(client_id)
        if client is None:
            raise Refusal(
                Code.UNRECOGNIZED_CLIENT_TYPE, f"The client {client_id} has no settings; send them first."
            )
        if client.settings.subscription is not None:
            state.check_group(group)
            check_session_group(state, group)
            client.groups.add(group)
        self._touch(client)

    def keep_alive(self, client_id: str) -> None:
        """Postpone a client's expiry."""
        client = self._state.clients.get(client_id)
        if client is not None:
            self._touch(client)

    def lose_stream(self, client_id: str) -> None:
        """Note that a client has no telemetry stream; closing one unregisters no client (session §11.12)."""
        client = self._state.clients.get(client_id)
        if client is not None:
            client.reachable = False

    def terminate(self, client_id: str, group: str) -> None:
        """Unregister a client (R2.16)."""
        state = self._state
        client = state.clients.get(client_id)
        if client is None:
            raise Refusal(Code.UNRECOGNIZED_CLIENT_TYPE, f"The client {client_id} is not registered.")
        if client.settings.subscription is not None:
            try:
                state.check_group(group)
            except Refusal:
                if state.profile.illegal_termination_unregisters:
                    self._leave(client, expired=False)
                raise
        self._leave(client, expired=False)

    def forget_all(self) -> None:
        """Drop every client: the proxy lost its memory (R12.7)."""
        for client in self._state.clients.values():
            self._state.timers.cancel(client)
        self._state.clients.clear()
        self._lite.forget_all()

    def command(self, client_id: str, command: Command) -> None:
        """Send a command to a registered client. Refused with NOT_FOUND for others."""
        if client_id not in self._state.clients:
            raise Refusal(Code.NOT_FOUND, f"The client {client_id} is not registered.")
        self._state.outputs.append(CommandForClient(client_id, command))

    def _check(self, settings: ClientSettings) -> None:
        state = self._state
        try:
            if settings.properties and state.profile.client_properties_checked:
                check_client_properties(settings.properties)
            if settings.subscription is not None:
                self._check_subscription(settings.client_type, settings.subscription)
            elif settings.topics is not None:
                for topic in settings.topics:
                    state.check_topic(topic)
            else:
                raise Refusal(Code.BAD_REQUEST, "The settings are neither a producer's nor a consumer's.")
        except Refusal as refusal:
            raise Refusal(refusal.code, refusal.message, Surface.STREAM) from None

    def _check_subscription(self, client_type: ClientType, subscription: Subscription) -> None:
        state = self._state
        state.check_group(subscription.group)
        if client_type not in state.profile.client_types:
            raise Refusal(
                Code.INTERNAL_SERVER_ERROR, f"A {client_type.name} may not send a consumer's settings."
            )
        for _, expression in subscription.filters:
            if not expression.expression and expression.type.name == "SQL":
                parse(expression, state.profile)
        group = session_group(state, subscription.group)
        if client_type in LITE_CLIENTS:
            self._check_bound(subscription, group)
        if group is None and state.profile.session_needs_group:
            raise Refusal(Code.BAD_REQUEST, f"group not found: {subscription.group}")

    def _check_bound(self, subscription: Subscription, group: Group | None) -> None:
        """Refuse lite consumers whose group is not bound to the topic they name (R2.7)."""
        bound = "" if group is None else group.config.lite_bind_topic
        if not bound or any(topic != bound for topic, _ in subscription.filters):
            raise Refusal(
                Code.BAD_REQUEST,
                f"The consumer group {subscription.group} is bound to {bound or 'no lite topic'}.",
            )

    def _merge(self, settings: ClientSettings) -> MergedSettings:
        profile = self._state.profile
        if settings.subscription is None:
            initial, maximum, multiplier = limits.PRODUCER_BACKOFF
            return MergedSettings(
                limits.PRODUCER_MAX_ATTEMPTS,
                RetryPolicy((), initial, maximum, multiplier),
                max_body_size=profile.body_max,
                validate_message_type=profile.types_checked,
            )
        group = self._state.groups.get(settings.subscription.group)
        lite = profile.lite_limits_for_all or (group is not None and bool(group.config.lite_bind_topic))
        quota = size = 0
        if lite:
            size = profile.max_lite_topic_size
            quota = profile.lite_subscription_quota
            if group is not None:
                quota = lite_quota(group.config, quota)
        if group is None:
            # The client's own values stay if no group overwrites them (R2.9).
            return MergedSettings(
                settings.max_attempts or 17,
                settings.retry_policy or RetryPolicy(tuple(map(float, profile.backoff.value))),
                fifo=settings.fifo,
                receive_batch_size=settings.receive_batch_size or limits.RECEIVE_BATCH,
                long_polling=settings.long_polling or limits.LONG_POLLING,
                lite_subscription_quota=quota,
                max_lite_topic_size=size,
            )
        return MergedSettings(
            group.config.max_attempts,
            retry_policy(group.config, profile),
            fifo=group.config.ordered,
            receive_batch_size=limits.RECEIVE_BATCH,
            long_polling=limits.LONG_POLLING,
            lite_subscription_quota=quota,
            max_lite_topic_size=size,
        )

    def _touch(self, client: Client) -> None:
        state = self._state
        client.last_seen = state.now
        state.timers.set(client, state.now + milliseconds(state.profile.client_expiry), self._expire)

    def _expire(self, client: Client) -> None:
        self._leave(client, expired=True)

    def _leave(self, client: Client, *, expired: bool) -> None:
        state = self._state
        state.timers.cancel(client)
        del state.clients[client.id]
        state.events.append(
            ClientLeft(state.at, client.id, client.settings.client_type, client.group, expired)
        )
        self._leasing.release_client(client.id)
        self._lite.forget_client(client.id)
