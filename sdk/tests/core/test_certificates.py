"""The name of a certificate."""

import base64
from datetime import datetime, timedelta

import pytest
import trustme
from aiorocketmq._core.certificates import name_in
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

# Self-signed for CN=localhost without alternative names, like the one that Apache's proxy brings.
WITHOUT_ALTERNATIVE_NAMES = """\
-----BEGIN CERTIFICATE-----
MIIBJTCBywIURUgW4uZ8sroLRHqSdhLD2Z1c6Y0wCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTEyMzQxN1oYDzIxMjYxMDI4MTIzNDE3
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AASaL0jCEK/oJffdjyoAchsedlBGfJZbJdpZttYXVhWNAniKb9mxfp9rulfNUerb
JFefIEfR6n0gRhF15uIMHvpRMAoGCCqGSM49BAMCA0kAMEYCIQC+LoTNF2EO87MX
CUSmcaldrx+TL5Fj8DzRHk69ey/hNwIhAJezA3IkIk5z3jtxgO548rgWTl0czcUS
OcQ26S80zkAt
-----END CERTIFICATE-----
"""


def der(pem: str) -> bytes:
    return base64.b64decode("".join(line for line in pem.splitlines() if not line.startswith("-")))


@pytest.mark.parametrize("name", ["mq.example.org", "127.0.0.1", "::1"])
def test_the_first_alternative_name_counts(name: str) -> None:
    chain = trustme.CA().issue_cert(name, "other.example.org").cert_chain_pems[0]
    assert name_in(der(chain.bytes().decode())) in (name, "other.example.org")
    alone = trustme.CA().issue_cert(name).cert_chain_pems[0]
    assert name_in(der(alone.bytes().decode())) == name


def test_a_certificate_without_alternative_names_has_the_name_of_its_subject() -> None:
    assert name_in(der(WITHOUT_ALTERNATIVE_NAMES)) == "localhost"


def test_the_name_is_that_of_the_subject_and_not_of_the_issuer() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, subject = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("authority", "mq.example.org")
    )
    start = datetime(2026, 1, 1)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), 1, start, start + timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    assert name_in(certificate) == "mq.example.org"


def test_the_first_of_many_names_counts_also_of_a_critical_extension() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other")])
    start = datetime(2026, 1, 1)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, start, start + timedelta(days=1))
    for count in (1, 6, 20):  # lengths of one, two and three bytes
        names = [x509.DNSName(f"host-{number}.mq.example.org") for number in range(count)]
        for is_critical in (False, True):
            extended = builder.add_extension(x509.SubjectAlternativeName(names), critical=is_critical)
            certificate = extended.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
            assert name_in(certificate) == "host-0.mq.example.org"


def test_something_else_has_no_name_and_does_no_harm() -> None:
    chain = trustme.CA().issue_cert("mq.example.org").cert_chain_pems[0]
    for certificate in (der(WITHOUT_ALTERNATIVE_NAMES), der(chain.bytes().decode())):
        names = {name_in(certificate[:cut]) for cut in range(len(certificate))}
        assert all(name is None or name in certificate.decode("latin-1") for name in names)


@pytest.mark.parametrize("end", ["0cff", "0c00", "0c02ffff", "0c0261", "0c", ""])
def test_a_name_that_is_empty_or_damaged_is_none(end: str) -> None:
    assert name_in(bytes.fromhex("0603550403" + end)) is None
