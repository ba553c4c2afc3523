"""Endpoints as users write them."""

import pytest
from aiorocketmq._core.endpoint import Address, Endpoint, Scheme, endpoint_of, parse_endpoint
from hypothesis import given, strategies as st

PORTS = st.integers(min_value=1, max_value=65535)
LABELS = st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "scheme", "addresses"),
    [
        ("localhost:8081", Scheme.DOMAIN_NAME, (Address("localhost", 8081),)),
        (" mq.example.org:8081 ", Scheme.DOMAIN_NAME, (Address("mq.example.org", 8081),)),
        ("my_service:1", Scheme.DOMAIN_NAME, (Address("my_service", 1),)),
        ("10.0.0.1:8081", Scheme.IPV4, (Address("10.0.0.1", 8081),)),
        ("10.0.0.1:8081;10.0.0.2:8082", Scheme.IPV4, (Address("10.0.0.1", 8081), Address("10.0.0.2", 8082))),
        ("10.0.0.1:8081;", Scheme.IPV4, (Address("10.0.0.1", 8081),)),
        ("[::1]:8081", Scheme.IPV6, (Address("::1", 8081),)),
        ("[fe80::1%eth0.2]:8081", Scheme.IPV6, (Address("fe80::1%eth0.2", 8081),)),
        ("[::1]:8081; [fe80::2]:9", Scheme.IPV6, (Address("::1", 8081), Address("fe80::2", 9))),
    ],
)
def test_well_formed_endpoints_are_understood(
    text: str, scheme: Scheme, addresses: tuple[Address, ...]
) -> None:
    assert parse_endpoint(text) == Endpoint(scheme, addresses)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no host"),
        ("   ", "has no host"),
        ("localhost", "has no port; write 'localhost:8081'"),
        ("localhost:", "has no port"),
        (":8081", "has no host"),
        ("http://localhost:8081", "must not start with 'http://'; write 'localhost:8081'"),
        ("HTTPS://localhost:8081/", "write 'localhost:8081' and tls=Tls()"),
        ("dns:///localhost:8081", "must not start with 'dns://'"),
        ("namesrv://localhost:9876", "must not start with 'namesrv://'"),
        ("localhost:eighty", "a port is a number from 1 to 65535"),
        ("localhost:0", "a port is a number from 1 to 65535"),
        ("localhost:65536", "a port is a number from 1 to 65535"),
        ("localhost:٣", "a port is a number from 1 to 65535"),
        ("::1", "looks like IPv6; write it in brackets"),
        ("::1:8081", "looks like IPv6; write it in brackets"),
        ("[::1]", "has no port; write '[::1]:8081'"),
        ("[::1]8081", "is malformed"),
        ("[::1:8081", "is malformed"),
        ("[localhost]:8081", "is not an IPv6 address"),
        ("256.0.0.1:8081", "not a valid IPv4 address"),
        ("a b:8081", "neither a host name nor an IP address"),
        ("local host:8081", "neither a host name nor an IP address"),
        ("-x:8081", "neither a host name nor an IP address"),
        ("10.0.0.1:8081;mq:8081", "mixes kinds of addresses"),
        ("10.0.0.1:8081;[::1]:8081", "mixes kinds of addresses"),
        ("[fe80::1%a b]:8081", "has 'a b' as zone, which names no interface"),
        (f"[fe80::1%{'x' * 300}]:8081", "as zone"),
        ("a:8081;b:8081", "lists several host names"),
        ("10.0.0.1:8081;;10.0.0.2:8081", "has no host"),
        ("10.0.0.1:8081,10.0.0.2:8081", "looks like IPv6"),
    ],
)
def test_a_bad_endpoint_is_refused_with_the_piece_that_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="endpoint") as error:
        parse_endpoint(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_something_that_is_no_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="an endpoint is text"):
        parse_endpoint(8081)  # type: ignore[arg-type]


@given(st.ip_addresses(), PORTS)
def test_every_ip_address_survives_the_way_through_text(address: object, port: int) -> None:
    host = str(address)
    endpoint = parse_endpoint(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    assert parse_endpoint(str(endpoint)) == endpoint


@given(st.lists(LABELS, min_size=1, max_size=4), PORTS)
def test_every_host_name_is_taken(labels: list[str], port: int) -> None:
    host = ".".join(labels)
    assert parse_endpoint(f"{host}:{port}").addresses == (Address(host, port),)


@given(st.text(max_size=40))
def test_any_text_is_either_understood_or_a_value_error(text: str) -> None:
    try:
        endpoint = parse_endpoint(text)
    except ValueError:
        return
    assert parse_endpoint(str(endpoint)) == endpoint


def test_equal_endpoints_are_the_same_key() -> None:
    assert hash(parse_endpoint("localhost:8081")) == hash(parse_endpoint(" localhost:8081"))
    assert parse_endpoint("localhost:8081") != parse_endpoint("127.0.0.1:8081")


@pytest.mark.parametrize(
    ("host", "scheme"),
    [("10.0.0.1", Scheme.IPV4), ("fe80::1", Scheme.IPV6), ("mq", Scheme.DOMAIN_NAME)],
)
def test_the_kind_of_a_servers_address_follows_from_its_host(host: str, scheme: Scheme) -> None:
    assert endpoint_of((Address(host, 1),)).scheme is scheme


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ([Address("mq", 0)], "a port is a number from 1 to 65535"),
        ([Address("mq", -1)], "a port is a number from 1 to 65535"),
        ([Address("10.0.0.1", 65536)], "a port is a number from 1 to 65535"),
        ([Address("a b", 1)], "neither a host name nor an IP address"),
        ([Address("a\nb", 1)], "neither a host name nor an IP address"),
        ([Address("a;b", 1)], "neither a host name nor an IP address"),
        ([Address("a" * 60 + ".b" * 200, 1)], "neither a host name nor an IP address"),
        ([Address("10.0.0.300", 1)], "not a valid IPv4 address"),
        ([Address("10.0.0.1", 1), Address("fe80::1", 1)], "mixes kinds of addresses"),
        ([Address("a", 1), Address("b", 1)], "lists several host names"),
    ],
)
def test_a_servers_bad_address_is_a_value_error(addresses: list[Address], said: str) -> None:
    with pytest.raises(ValueError, match="endpoint") as error:
        endpoint_of(tuple(addresses))
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 800
