"""Namespaces: the core knows `name` of namespace `ns` as `ns%name`, as Apache's stored names are (R14.7)."""

from __future__ import annotations

from collections.abc import Iterator

from aiorocketmq.wire import messages as pb

from aiorocketmq_fake.core.values.codes import Code, Refusal

__all__ = ["bare", "qualify", "resources", "set_resource"]

# Such topics contain the name of their group, and with it the namespace.
INTERNAL = ("%RETRY%", "%DLQ%")


def qualify(resource: pb.Resource, code: Code) -> None:
    """Return the qualified name of a resource for the core; Refusal with `code` for a namespace with %."""
    namespace = resource.resource_namespace
    if "%" in namespace:
        raise Refusal(code, f"The namespace {namespace[:140]!r} has a %; use letters, digits, _ and -.")
    prefix, name = _split_prefix(resource.name)
    # A blank name stays blank: the core refuses it.
    if name.strip():
        resource.name = f"{prefix}{namespace}%{name}"


def bare(resource: pb.Resource) -> str:
    """Return the name that a client gave to a resource, qualified or not."""
    if not resource.resource_namespace:
        return resource.name
    prefix, name = _split_prefix(resource.name)
    return prefix + name.removeprefix(f"{resource.resource_namespace}%")


def set_resource(resource: pb.Resource, stored: str) -> None:
    """Fill in a resource from a stored name: the part before a % is its namespace."""
    prefix, name = _split_prefix(stored)
    namespace, percent, rest = name.partition("%")
    if percent and namespace and rest:
        resource.resource_namespace = namespace
        resource.name = prefix + rest
    else:
        resource.name = stored


def resources(settings: pb.Settings) -> Iterator[pb.Resource]:
    """Iterate over all topics and groups in a client's settings."""
    yield from settings.publishing.topics
    if settings.HasField("subscription"):
        yield settings.subscription.group
        for entry in settings.subscription.subscriptions:
            yield entry.topic


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in INTERNAL:
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
