"""Query for the queues that a server assigns to a client of a group."""

from __future__ import annotations

from aiorocketmq._core.route import RouteQueue
from aiorocketmq._session import conversion
from aiorocketmq._session.calls import QUERY_ASSIGNMENT
from aiorocketmq._session.session import Session
from aiorocketmq._session.transport_errors import malformed_answer
from aiorocketmq.wire import messages as pb


async def assignments(session: Session, topic: str) -> list[RouteQueue]:
    """Return the queues that the server assigns to this client; an id of -1 stands for all queues of a broker."""
    route = await session.route(topic)
    servers = [each.endpoint for each in route.readable] or [session.access]
    endpoint = session.access if session.access in servers else session.environment.random.choice(servers)
    request = pb.QueryAssignmentRequest(
        topic=session.resource(topic),
        group=session.group_resource,
        endpoints=conversion.endpoint_to_wire(session.access),
    )
    response = await session.call(endpoint, QUERY_ASSIGNMENT, request, topic=topic, group=session.group)
    try:
        queues = conversion.assigned_from_wire(topic, response, session.access)
    except ValueError as error:
        raise malformed_answer(
            str(error), what=QUERY_ASSIGNMENT.name, endpoint=endpoint, topic=topic, group=session.group
        ) from None
    return [session.routes.mapped(each) for each in queues]
