"""Emitter members of a group that are handed messages from those that own queues, by their client ids."""

from __future__ import annotations

import pytest
from aiorocketmq._core.pop_members import pop_members, unclear_members
from aiorocketmq._transport.network import new_client_id
from aiorocketmq.connection import Environment
from hypothesis import given, strategies as st

NAMES = st.text("abcXYZ019.-#_", min_size=1, max_size=8)


@pytest.mark.parametrize(
    "client_id",
    [
        "vm@18842@0@dlz9d5zyz",  # Java, seen on 5.5.0
        "10.0.0.7@1@12@K3X9",
        "10.0.0.7@1@12@STREAM7",
    ],
)
def test_grpc_clients_are_recognised_by_their_ids(client_id: str) -> None:
    assert pop_members(["10.0.0.5@DEFAULT", client_id]) == (client_id,)
    assert unclear_members([client_id]) == ()


@pytest.mark.parametrize(
    "client_id",
    [
        "192.0.2.2@9597#76543210",  # Java and Go
        "192.0.2.2@9597#76543210@STREAM",  # lite pull
        "192.0.2.2@DEFAULT@unit",
        "192.0.2.2@7@1@STREAM",
        "2001:db8::7@7@1",
        "192.0.2.2@7@1@unit-a",
    ],
)
def test_classic_clients_are_not(client_id: str) -> None:
    assert pop_members([client_id]) == unclear_members([client_id]) == ()


def test_our_own_clients_are_distinguished() -> None:
    ours = [new_client_id(Environment(), is_remoting=is_remoting) for is_remoting in (False, True)]
    assert pop_members(ours) == (ours[0],)
    assert unclear_members(ours) == ()


@given(NAMES, NAMES, NAMES, st.sampled_from(["", "@STREAM"]))
def test_no_classic_name_of_machine_instance_and_unit_is_taken_for_a_grpc_client(
    host: str, instance: str, unit: str, end: str
) -> None:
    assert pop_members([f"{host}@{instance}{end}", f"{host}@{instance}@{unit}{end}"]) == ()


def test_an_id_that_no_client_makes_is_unclear() -> None:
    assert unclear_members(["reader-7", "a@b"]) == ("reader-7",)
    assert pop_members(["reader-7"]) == ()
