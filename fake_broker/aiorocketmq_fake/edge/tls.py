"""TLS settings: a given certificate, or one generated for this run."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["ServerTls"]


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a TLS port needs, all as PEM."""

    certificate_chain: bytes
    """The server's certificate, then those of its issuers."""
    private_key: bytes
    """The key of the first certificate."""
    trust: bytes
    """Trust anchor of clients: a root, or the self-signed certificate itself."""
    client_trust: bytes = b""
    """Issuers of required client certificates; empty: none is required."""
    also_plain: bool = False
    """The port also accepts plain connections, as Apache's does (R14.6), at the cost of one more copy of every byte."""
    client_certificate: bytes = b""
    """A certificate chain with its key for clients, if one was generated with the server's."""

    def __post_init__(self) -> None:
        if self.also_plain and self.client_trust:
            raise ValueError(
                "a port that also answers plain connections cannot ask for client certificates: choose one of the two."
            )

    def context(self) -> ssl.SSLContext:
        """Return the server context for asyncio; ssl.SSLError for an invalid certificate or key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # The standard library loads a chain from files only.
        with TemporaryDirectory() as folder:
            file = Path(folder, "chain.pem")
            file.touch(mode=0o600)
            file.write_bytes(self.private_key + b"\n" + self.certificate_chain)
            context.load_cert_chain(file)
        if self.client_trust:
            context.load_verify_locations(cadata=self.client_trust.decode("ascii"))
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    @classmethod
    def from_files(
        cls,
        certificate: Path | str,
        key: Path | str,
        *,
        client_trust: Path | str | None = None,
        also_plain: bool = False,
    ) -> ServerTls:
        """Read a certificate chain and its key from PEM files; OSError if that fails.

        With `client_trust`, a PEM file of certificates, clients must show one that was issued under them.
        """
        chain = Path(certificate).read_bytes()
        return cls(
            certificate_chain=chain,
            private_key=Path(key).read_bytes(),
            trust=chain,
            client_trust=Path(client_trust).read_bytes() if client_trust is not None else b"",
            also_plain=also_plain,
        )

    @classmethod
    def self_made(cls, *hosts: str, ask_clients: bool = False, also_plain: bool = False) -> ServerTls:
        """Generate a certificate for `hosts` (names or addresses, by default loopback) under a new root.

        With `ask_clients` a `client_certificate` is generated and required, too. Needs the package trustme, else
        ModuleNotFoundError.
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
            client_trust=root.cert_pem.bytes() if ask_clients else b"",
            also_plain=also_plain,
            client_certificate=(
                root.issue_cert("client@example.org").private_key_and_cert_chain_pem.bytes()
                if ask_clients
                else b""
            ),
        )
