"""A web service over RocketMQ: `POST /orders` sends a message, and a consumer in the same process books what arrives.

    ROCKETMQ_ENDPOINT=localhost:8081 uvicorn web_service:app

The clients live as long as the application (`lifespan`). `GET /ready` is for a load balancer or a readiness probe.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from aiorocketmq import (
    Connection,
    DeadLetter,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RocketMQError,
)
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, PositiveInt, ValidationError

TOPIC, GROUP = "orders", "booking"


class Order(BaseModel):
    """What a customer orders; the JSON body of requests and messages."""

    customer: str
    article: str
    pieces: PositiveInt


class Shop:
    """The clients of one application, and what was booked."""

    def __init__(self, connection: Connection) -> None:
        self.producer = Producer(connection, topics=[TOPIC])
        self.consumer = PushConsumer(connection, group=GROUP, subscriptions=[TOPIC], handler=self._book)
        self.booked: list[Order] = []

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Consume and send in this block; its end waits for handlers that run (30 s at most)."""
        async with self.producer, self.consumer:
            yield

    async def order(self, order: Order) -> str:
        """Send an order and return the id of its message."""
        receipt = await self.producer.send(
            Message(TOPIC, order.model_dump_json().encode(), keys=[order.customer])
        )
        return receipt.message_id

    async def _book(self, message: ReceivedMessage) -> None:
        try:
            order = Order.model_validate_json(message.body)
        except ValidationError as error:
            raise DeadLetter("this is no order") from error  # another attempt would fail as well
        self.booked.append(order)


def shop_of(request: Request) -> Shop:
    """Return the shop of the application that a request is for."""
    shop: Shop = request.app.state.shop
    return shop


ShopOfApp = Annotated[Shop, Depends(shop_of)]


def create_app(endpoint: str) -> FastAPI:
    """Make the application for the RocketMQ at `endpoint`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with Connection(endpoint) as connection:
            app.state.shop = Shop(connection)
            async with app.state.shop.run():
                yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=202)
    async def order(order: Order, shop: ShopOfApp) -> dict[str, str]:
        try:
            return {"message_id": await shop.order(order)}
        except RocketMQError as error:
            # 503 invites the caller to repeat; the message may be stored already if the error says so.
            raise HTTPException(503 if error.may_retry else 500, str(error)) from error

    @app.get("/ready")
    async def ready(shop: ShopOfApp, response: Response) -> dict[str, bool]:
        states = {"producer": shop.producer.is_ready, "consumer": shop.consumer.is_ready}
        response.status_code = 200 if all(states.values()) else 503
        return states

    @app.get("/alive")
    async def alive(shop: ShopOfApp, response: Response) -> dict[str, bool]:
        # Outages are waited for; only a failure for good asks for a restart.
        failed = any(client.health().failure for client in (shop.producer, shop.consumer))
        response.status_code = 503 if failed else 200
        return {"alive": not failed}

    return app


app = create_app(os.environ.get("ROCKETMQ_ENDPOINT", "localhost:8081"))
