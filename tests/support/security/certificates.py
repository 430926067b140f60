"""A certificate authority for tests, in PEM: made anew for every session, never kept."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

_LIFETIME = datetime.timedelta(days=1)
_HOUR = datetime.timedelta(hours=1)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Authority:
    """Issues certificates; `pem` is its own."""

    def __init__(self, name: str = "test authority") -> None:
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed(name, self._key, self._key, None)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, common_name: str, *hosts: str, expired: bool = False) -> tuple[str, str]:
        """A private key (PKCS 8) and a certificate for host names and addresses, in PEM; `expired`
        an hour ago."""
        names = [
            x509.IPAddress(ipaddress.ip_address(host))
            if host.replace(".", "").isdigit()
            else x509.DNSName(host)
            for host in hosts
        ]
        key = ec.generate_private_key(ec.SECP256R1())
        end = -_HOUR if expired else _LIFETIME
        certificate = self._signed(common_name, key, self._key, names, end)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return private.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode()

    def client_context(self, own: Path | None = None) -> ssl.SSLContext:
        """A context that trusts this authority and nobody else, and checks host names. `own`: a
        PEM file with the client's key and certificate."""
        context = ssl.create_default_context(cadata=self.pem)
        if own is not None:
            context.load_cert_chain(own)
        return context

    def _signed(
        self,
        common_name: str,
        key: ec.EllipticCurvePrivateKey,
        signer: ec.EllipticCurvePrivateKey,
        hosts: list[x509.GeneralName] | list[x509.IPAddress | x509.DNSName] | None,
        end: datetime.timedelta = _LIFETIME,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(common_name))
            .issuer_name(_name(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _LIFETIME)
            .not_valid_after(now + end)
            .add_extension(x509.BasicConstraints(ca=hosts is None, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        return builder.sign(signer, hashes.SHA256())
