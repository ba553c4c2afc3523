"""The pipeline in virtual time: what a database refuses is not sent, order holds, and dead letters return."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator

import pytest
from aiorocketmq import Connection
from aiorocketmq_fake import FakeBroker
from order_pipeline import ORDERS, WAREHOUSE, Ledger, Order, Pipeline, Step, main, prepare, redrive


class Warehouse:
    """Does steps, except for articles that it does not have."""

    def __init__(self) -> None:
        self.done: list[Step] = []
        self.missing = set[str]()

    def do(self, step: Step) -> None:
        if step.article in self.missing:
            raise LookupError(f"no {step.article} in stock")
        self.done.append(step)

    def of(self, customer: str) -> list[tuple[str, str]]:
        return [(step.order, step.work) for step in self.done if step.customer == customer]


@pytest.fixture
def warehouse() -> Warehouse:
    return Warehouse()


@pytest.fixture
async def connection(rocketmq: FakeBroker) -> AsyncIterator[Connection]:
    await prepare(rocketmq)
    async with Connection(rocketmq.endpoint, clock=rocketmq.clock) as connection:
        yield connection


@pytest.fixture
async def pipeline(connection: Connection, warehouse: Warehouse) -> AsyncIterator[Pipeline]:
    pipeline = Pipeline(connection, Ledger(), warehouse.do)
    async with pipeline.run():
        yield pipeline


async def test_steps_of_a_customer_stay_in_order(
    pipeline: Pipeline, warehouse: Warehouse, rocketmq: FakeBroker
) -> None:
    for order in (Order("1", "ann", "shoes"), Order("2", "bob", "hat"), Order("3", "ann", "tie")):
        await pipeline.accept(order)
    await rocketmq.clock.advance(seconds=10)
    assert warehouse.of("bob") == [("2", "pick"), ("2", "pack"), ("2", "ship")]
    assert [work for order, work in warehouse.of("ann") if order == "1"] == ["pick", "pack", "ship"]
    assert len(warehouse.done) == 9


async def test_what_the_database_refuses_is_not_sent(pipeline: Pipeline, rocketmq: FakeBroker) -> None:
    await pipeline.accept(Order("1", "ann", "shoes"))
    with pytest.raises(sqlite3.IntegrityError):
        await pipeline.accept(Order("1", "ann", "shoes again"))
    await rocketmq.clock.advance(minutes=10)
    assert len(rocketmq.messages(ORDERS)) == 1
    assert rocketmq.half_messages() == ()


@pytest.mark.rocketmq(remoting_port=0)
async def test_dead_letters_return_when_their_cause_is_mended(
    pipeline: Pipeline, warehouse: Warehouse, rocketmq: FakeBroker
) -> None:
    warehouse.missing = {"hat"}
    await pipeline.accept(Order("1", "bob", "hat"))
    await pipeline.accept(Order("2", "ann", "shoes"))
    await rocketmq.clock.advance(minutes=10)
    assert warehouse.of("ann") == [("2", "pick"), ("2", "pack"), ("2", "ship")]  # others are not held up
    assert len(rocketmq.dead_letters(WAREHOUSE)) == 3

    warehouse.missing = set()
    assert await redrive(f"namesrv://{rocketmq.remoting_endpoint}") == 3
    await rocketmq.clock.advance(seconds=10)
    assert warehouse.of("bob") == [("1", "pick"), ("1", "pack"), ("1", "ship")]


async def test_program_runs_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    await main()
    assert capsys.readouterr().out.count("Step(") == 6
