"""Headers and signature."""

import hashlib
import hmac

from aiorocketmq._core.headers import HeaderSource, authorization, date_text


def source(namespace: str = "") -> HeaderSource:
    return HeaderSource(client_id="c1", version="0.1.0", namespace=namespace, request_prefix="r")


def test_the_date_is_utc_in_compact_form() -> None:
    assert date_text(1_609_459_200.9) == "20210101T000000Z"


def test_the_signature_is_the_hmac_of_the_date_text_alone() -> None:
    expected = hmac.new(b"secret", b"20210101T000000Z", hashlib.sha1).hexdigest().upper()
    assert authorization("key", "secret", "20210101T000000Z") == (
        f"MQv2-HMAC-SHA1 Credential=key, SignedHeaders=x-mq-date-time, Signature={expected}"
    )


def test_every_call_names_client_language_protocol_version_date_and_request() -> None:
    headers, request_id = source().next(1_609_459_200.0)
    assert dict(headers) == {
        "x-mq-client-id": "c1",
        "x-mq-language": "PYTHON",
        "x-mq-protocol": "v2",
        "x-mq-client-version": "0.1.0",
        "x-mq-date-time": "20210101T000000Z",
        "x-mq-request-id": request_id,
    }


def test_request_ids_differ_and_the_rest_is_made_once_a_second() -> None:
    headers = source()
    first, first_id = headers.next(10.1)
    second, second_id = headers.next(10.9)
    assert first_id != second_id
    assert first[:-1] == second[:-1]
    assert dict(headers.next(11.0)[0])["x-mq-date-time"] == "19700101T000011Z"


def test_the_date_follows_a_clock_that_is_set_back() -> None:
    headers = source()
    dates = [dict(headers.next(now)[0])["x-mq-date-time"] for now in (20.0, 10.0)]
    assert dates == ["19700101T000020Z", "19700101T000010Z"]


def test_credentials_sign_from_the_next_call_on_and_carry_their_token() -> None:
    headers = source("shop")
    assert "authorization" not in dict(headers.next(10.0)[0])
    headers.sign_with("key", "secret", "token")
    signed = dict(headers.next(10.0)[0])
    assert signed["authorization"] == authorization("key", "secret", signed["x-mq-date-time"])
    assert signed["x-mq-session-token"] == "token"
    assert signed["x-mq-namespace"] == "shop"


def test_other_credentials_leave_no_token_of_earlier_ones() -> None:
    headers = source()
    headers.sign_with("temporary", "secret", "token")
    headers.next(10.0)
    headers.sign_with("key", "other", None)
    signed = dict(headers.next(10.0)[0])
    assert "x-mq-session-token" not in signed
    assert signed["authorization"] == authorization("key", "other", signed["x-mq-date-time"])


def test_headers_stay_far_below_the_size_at_which_servers_drop_the_connection() -> None:
    headers = source("n" * 100)
    headers.sign_with("k" * 100, "s" * 100, "t" * 2000)
    assert sum(len(name) + len(value) + 32 for name, value in headers.next(0.0)[0]) < 7 * 1024
