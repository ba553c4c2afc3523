"""The server's certificate: a given one, or one made for this run."""

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
    """What clients must trust to accept the chain: a root, or the self-signed certificate itself."""
    client_trust: bytes = b""
    """Clients must show a certificate under one of these; empty asks for none."""
    also_plain: bool = False
    """The port answers plain connections, too, as Apache's does (R14.6). Every byte is copied once more then."""
    client_certificate: bytes = b""
    """A certificate chain with its key for clients, where one was made together with the server's."""

    def __post_init__(self) -> None:
        if self.also_plain and self.client_trust:
            raise ValueError(
                "a port that also answers plain connections cannot ask for client certificates: choose one of the two."
            )

    def context(self) -> ssl.SSLContext:
        """Return a server's side of connections that asyncio serves; ssl.SSLError for what is no certificate or key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # The standard library takes a chain from files alone.
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
        """Read a certificate chain and its key from PEM files; OSError where that is not possible.

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
        """Make a certificate for `hosts` (names or addresses; by default those of loopback) under a root of its own.

        With `ask_clients` one is made for clients, too (`client_certificate`), and nobody gets in without.
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
            client_trust=root.cert_pem.bytes() if ask_clients else b"",
            also_plain=also_plain,
            client_certificate=(
                root.issue_cert("client@example.org").private_key_and_cert_chain_pem.bytes()
                if ask_clients
                else b""
            ),
        )
