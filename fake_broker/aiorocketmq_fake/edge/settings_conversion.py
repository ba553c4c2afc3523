"""Converts settings of clients to values of the core and back."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_fake.core.values.codes import ClientType, Code
from aiorocketmq_fake.core.values.model import (
    NO_PROPERTIES,
    ClientSettings,
    MergedSettings,
    RetryPolicy,
    Subscription,
)
from aiorocketmq_fake.edge.caller import Caller
from aiorocketmq_fake.edge.conversion import CLIENT_TYPES, filter_expression, set_span, set_status, span
from aiorocketmq_fake.edge.namespaces import bare, resources


def client_settings(settings: pb.Settings, caller: Caller) -> ClientSettings:
    """Read the settings that a client sent."""
    publishing = settings.WhichOneof("pub_sub") == "publishing"
    subscribing = settings.WhichOneof("pub_sub") == "subscription"
    subscription = settings.subscription
    policy = settings.backoff_policy
    return ClientSettings(
        client_type=CLIENT_TYPES.get(settings.client_type, ClientType.UNSPECIFIED),
        topics=tuple(topic.name for topic in settings.publishing.topics) if publishing else None,
        subscription=(
            Subscription(
                subscription.group.name,
                tuple(
                    (entry.topic.name, filter_expression(entry.expression))
                    for entry in subscription.subscriptions
                ),
            )
            if subscribing
            else None
        ),
        request_timeout=span(settings.request_timeout) if settings.HasField("request_timeout") else None,
        fifo=subscription.fifo,
        receive_batch_size=subscription.receive_batch_size,
        long_polling=span(subscription.long_polling_timeout),
        retry_policy=retry_policy(policy) if settings.HasField("backoff_policy") else None,
        max_attempts=policy.max_attempts,
        properties=dict(settings.client_properties) if settings.client_properties else NO_PROPERTIES,
        language=caller.language,
        address=caller.address,
    )


def retry_policy(policy: pb.RetryPolicy) -> RetryPolicy:
    """Read retry intervals."""
    exponential = policy.exponential_backoff
    return RetryPolicy(
        steps=tuple(span(step) for step in policy.customized_backoff.next),
        initial=span(exponential.initial),
        maximum=span(exponential.max),
        multiplier=exponential.multiplier,
    )


def settings_reply(sent: pb.Settings, merged: MergedSettings) -> pb.TelemetryCommand:
    """Answer a client's settings: its own ones, overlaid with the server's (2.2)."""
    reply = pb.TelemetryCommand()
    set_status(reply.status, Code.OK, "OK")
    settings = reply.settings
    settings.CopyFrom(sent)
    for resource in resources(settings):
        if resource.resource_namespace:
            resource.name = bare(resource)
    settings.metric.on = merged.metric_on
    policy = settings.backoff_policy
    policy.Clear()
    policy.max_attempts = merged.max_attempts
    if merged.retry_policy is not None:
        set_retry_policy(policy, merged.retry_policy)
    if settings.HasField("publishing"):
        settings.publishing.max_body_size = merged.max_body_size
        settings.publishing.validate_message_type = merged.validate_message_type
    else:
        subscription = settings.subscription
        subscription.fifo = merged.fifo
        subscription.receive_batch_size = merged.receive_batch_size
        set_span(subscription.long_polling_timeout, merged.long_polling)
        if merged.lite_subscription_quota:
            subscription.lite_subscription_quota = merged.lite_subscription_quota
        if merged.max_lite_topic_size:
            subscription.max_lite_topic_size = merged.max_lite_topic_size
    return reply


def set_retry_policy(policy: pb.RetryPolicy, intervals: RetryPolicy) -> None:
    """Fill in retry intervals."""
    if intervals.multiplier:
        exponential = policy.exponential_backoff
        set_span(exponential.initial, intervals.initial)
        set_span(exponential.max, intervals.maximum)
        exponential.multiplier = intervals.multiplier
    else:
        for step in intervals.steps:
            set_span(policy.customized_backoff.next.add(), step)
