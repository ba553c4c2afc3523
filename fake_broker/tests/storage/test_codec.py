"""What data files may hold, and how it is read."""

import pickle
import re
from enum import Enum

import pytest
from aiorocketmq_fake.core.model import MessageType
from aiorocketmq_fake.edge.storage.codec import load


class Written:
    """An enumeration's member, as Python before 3.11.4 writes it."""

    def __init__(self, kind: type[Enum], name: str) -> None:
        self._of = (kind, name)

    def __reduce__(self) -> tuple[object, ...]:
        return getattr, self._of


def test_members_of_enumerations_are_read_whichever_python_wrote_them() -> None:
    for member in MessageType:
        for written in (member, Written(MessageType, member.name)):
            assert load(pickle.dumps(written)) is member


def test_enumerations_from_elsewhere_are_refused() -> None:
    with pytest.raises(pickle.UnpicklingError, match="does not belong into a data file"):
        load(pickle.dumps(Written(re.RegexFlag, "ASCII")))
