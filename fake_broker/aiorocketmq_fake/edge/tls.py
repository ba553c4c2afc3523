"""The server's certificate: a given one, or one made for this run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ServerTls"]


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a TLS port needs, all as PEM."""

    certificate_chain: bytes
    """The server's certificate, then those of its issuers."""
    private_key: bytes
    """The key of the first certificate."""
    trust: bytes
    """What clients must trust to accept the chain: a root, or the self-signed certificate itself."""

    @classmethod
    def from_files(cls, certificate: Path | str, key: Path | str) -> ServerTls:
        """Read a certificate chain and its key from PEM files; OSError where that is not possible."""
        chain = Path(certificate).read_bytes()
        return cls(certificate_chain=chain, private_key=Path(key).read_bytes(), trust=chain)

    @classmethod
    def self_made(cls, *hosts: str) -> ServerTls:
        """Make a certificate for `hosts` (names or addresses; by default those of loopback) under a root of its own.

        Needs the package trustme: ModuleNotFoundError says how to get it.
        """
        try:
            import trustme
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(
                "making a certificate needs trustme: run pip install 'aiorocketmq[tls]', or give a certificate.",
                name=missing.name,
            ) from missing
        root = trustme.CA()
        leaf = root.issue_cert(*(hosts or ("localhost", "127.0.0.1", "::1")))
        return cls(
            certificate_chain=b"".join(blob.bytes() for blob in leaf.cert_chain_pems),
            private_key=leaf.private_key_pem.bytes(),
            trust=root.cert_pem.bytes(),
        )
