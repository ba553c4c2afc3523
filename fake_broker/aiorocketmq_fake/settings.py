"""Settings of real servers as changes of a profile, by the server's name or the field's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.profile import Profile

__all__ = ["SETTINGS", "Kind", "Setting", "listed", "with_settings"]


Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a setting's values."""

    words: str
    read: Callable[[str], bool | int | float]
    """ValueError or KeyError for an invalid text."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a real server, and the field of `Profile` that stands for it."""

    server: str
    """Its name in `broker.conf`, or in the proxy's JSON."""
    field: str
    kind: Kind
    unit: float = 1.0
    """Seconds of one unit of the server's; times of ours are seconds."""
    is_of_proxy: bool = False


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _whole(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not 0 <= number <= most:
            raise ValueError(text)
        return number

    return read


def _time(text: str) -> float:
    number = float(text)
    # Also for what is not a number.
    if not 0 <= number <= limits.SPAN_MAX:
        raise ValueError(text)
    return number


SWITCH = Kind("true or false", _truth)
COUNT = Kind("a whole number from 0 to 2147483647", _whole(2**31 - 1))
TIME = Kind(f"a time from 0 to {limits.SPAN_MAX:g}", _time)
HOUR = Kind("an hour from 0 to 23", _whole(23))

_MS = 0.001

SETTINGS = (
    Setting("autoCreateTopicEnable", "auto_create_topics", SWITCH),
    Setting("autoCreateSubscriptionGroup", "auto_create_groups", SWITCH),
    Setting("enableTopicMessageTypeCheck", "types_checked", SWITCH, is_of_proxy=True),
    Setting("enableMixedMessageType", "mixed_topics", SWITCH),
    Setting("recallMessageEnable", "recall_enabled", SWITCH),
    Setting("maxMessageSize", "body_max", COUNT),
    Setting("userPropertyMaxNum", "property_count_max", COUNT, is_of_proxy=True),
    Setting("maxUserPropertySize", "property_bytes_max", COUNT, is_of_proxy=True),
    Setting("maxMessageGroupSize", "message_group_limit", COUNT, is_of_proxy=True),
    Setting("maxDelayTimeMills", "max_delay", TIME, _MS, is_of_proxy=True),
    Setting("timerPrecisionMs", "delay_grain", TIME, _MS),
    Setting("transactionTimeOut", "check_immunity", TIME, _MS),
    Setting("transactionCheckInterval", "check_interval", TIME, _MS),
    Setting("transactionCheckMax", "check_limit", COUNT),
    Setting("transactionDataExpireMillis", "transaction_memory", TIME, _MS, is_of_proxy=True),
    Setting("maxTransactionRecoverySecond", "recovery_duration_max", TIME, is_of_proxy=True),
    Setting("minInvisibleTimeMillsForRecv", "invisible_min", TIME, _MS, is_of_proxy=True),
    Setting("maxInvisibleTimeMills", "invisible_max", TIME, _MS, is_of_proxy=True),
    Setting("grpcClientConsumerMinLongPollingTimeoutMillis", "polling_min", TIME, _MS, is_of_proxy=True),
    Setting("grpcClientConsumerMaxLongPollingTimeoutMillis", "polling_max", TIME, _MS, is_of_proxy=True),
    Setting("enableProxyAutoRenew", "auto_renews", SWITCH, is_of_proxy=True),
    Setting("renewAheadTimeMillis", "renew_ahead", TIME, _MS, is_of_proxy=True),
    Setting("renewMaxTimeMillis", "renew_limit", TIME, _MS, is_of_proxy=True),
    Setting("popPollingSize", "polls_per_key", COUNT),
    Setting("maxPopPollingSize", "polls_in_all", COUNT),
    Setting("channelExpiredTimeout", "client_expiry", TIME, _MS),
    Setting("fileReservedTime", "retention", TIME, 3600.0),
    Setting("deleteWhen", "cleaning_hour", HOUR),
)
"""All of them."""

_BY_NAME = {name: setting for setting in SETTINGS for name in (setting.server, setting.field)}


def with_settings(profile: Profile, settings: Mapping[str, Value]) -> Profile:
    """Change a profile as an operator changes a server; ValueError for an unknown setting or invalid value.

    Names are the server's (`transactionCheckInterval`, milliseconds there) or those of the fields (`check_interval`,
    seconds). The name of the new profile lists the changes.
    """
    changes: dict[str, bool | int | float] = {}
    for name, value in settings.items():
        setting = _BY_NAME.get(name)
        if setting is None:
            near = get_close_matches(name, _BY_NAME, n=1)
            hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(_BY_NAME))}."
            raise ValueError(f"unknown setting {name!r}: {hint}")
        try:
            read = setting.kind.read(str(value))
        except (ValueError, KeyError, OverflowError):
            raise ValueError(f"{name} must be {setting.kind.words}, got {value!r}") from None
        if setting.field in changes:
            raise ValueError(f"{setting.server} and {setting.field} are the same setting: give it once")
        is_scaled = name == setting.server and setting.kind is TIME
        changes[setting.field] = read * setting.unit if is_scaled else read
    changed = "".join(f"+{name}={value}" for name, value in sorted(changes.items()))
    return replace(profile, name=profile.name + changed, **changes)  # type: ignore[arg-type]  # read as their kinds say


def listed(profile: Profile) -> tuple[dict[str, object], ...]:
    """Return names, allowed values and value in a profile of each setting, in units of the server."""
    return tuple(
        {
            "server": setting.server,
            "file": "proxy" if setting.is_of_proxy else "broker",
            "field": setting.field,
            "values": setting.kind.words,
            "unit": _UNITS[setting.unit] if setting.kind is TIME else "",
            "value": _of_server(setting, getattr(profile, setting.field)),
        }
        for setting in SETTINGS
    )


_UNITS = {_MS: "ms", 1.0: "s", 3600.0: "h"}


def _of_server(setting: Setting, value: object) -> object:
    if setting.kind is TIME and isinstance(value, float):
        return round(value / setting.unit)
    return value
