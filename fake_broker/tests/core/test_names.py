"""Names of topics and groups."""

import pytest
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.names import check_group, check_lite_topic, check_topic


@pytest.mark.parametrize("name", ["a", "t" * 127, "%DLQ%g", "a|b", "A_b-9"])
def test_legal_topic_names_pass(name: str) -> None:
    check_topic(name)


@pytest.mark.parametrize(
    "name",
    ["", " ", "t" * 128, "a b", "ä", "a.b", "TBW102", "rmq_sys_x", "RMQ_SYS_TRANS_HALF_TOPIC", "broker-a"],
)
def test_illegal_topic_names_are_refused_with_one_sentence(name: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_topic(name, frozenset({"broker-a"}))
    assert caught.value.code is Code.ILLEGAL_TOPIC
    assert caught.value.message.endswith(".")
    assert str(caught.value).startswith("ILLEGAL_TOPIC (40002): The topic")


@pytest.mark.parametrize("name", ["g" * 120, "CID_ONSAPI_OWNER"])
def test_legal_group_names_pass(name: str) -> None:
    check_group(name)


@pytest.mark.parametrize("name", ["", "\t", "g" * 121, "a b", "CID_RMQ_SYS_x"])
def test_illegal_group_names_are_refused(name: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_group(name)
    assert caught.value.code is Code.ILLEGAL_CONSUMER_GROUP


@pytest.mark.parametrize("name", ["a_b-1", "x" * 64])
def test_legal_lite_topics_pass(name: str) -> None:
    check_lite_topic(name)


@pytest.mark.parametrize("name", ["x" * 65, "a b", "a.b", "é", "%", "a\n"])
def test_illegal_lite_topics_are_refused(name: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_lite_topic(name)
    assert caught.value.code is Code.ILLEGAL_LITE_TOPIC
