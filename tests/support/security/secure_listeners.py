"""Broker properties of listeners with TLS and SASL."""

from __future__ import annotations

from tests.support.security.certificates import Authority

__all__ = [
    "LOGIN",
    "MECHANISMS",
    "OAUTH",
    "PLAIN",
    "SCRAM",
    "SECRET",
    "SESSION_MS",
    "sasl_properties",
    "tls_properties",
]


SECRET = "open-sesame"
SESSION_MS = 1_500
LOGIN = "org.apache.kafka.common.security"
PLAIN = f'{LOGIN}.plain.PlainLoginModule required user_ali="{SECRET}";'
SCRAM = f"{LOGIN}.scram.ScramLoginModule required;"
OAUTH = f'{LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="b";'
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"


def sasl_properties(listener: str) -> dict[str, str]:
    prefix = f"listener.name.{listener}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": MECHANISMS,
        f"{prefix}.plain.sasl.jaas.config": PLAIN,
        f"{prefix}.scram-sha-256.sasl.jaas.config": SCRAM,
        f"{prefix}.scram-sha-512.sasl.jaas.config": SCRAM,
        f"{prefix}.oauthbearer.sasl.jaas.config": OAUTH,
        f"{prefix}.connections.max.reauth.ms": str(SESSION_MS) if listener == "short" else "0",
    }


def tls_properties(
    listener: str, authority: Authority, host: str, *, expired: bool = False
) -> dict[str, str]:
    prefix = f"listener.name.{listener}.ssl"
    key, certificate = authority.issue("broker", host, expired=expired)
    return {
        f"{prefix}.keystore.type": "PEM",
        f"{prefix}.keystore.key": key,
        f"{prefix}.keystore.certificate.chain": certificate,
        f"{prefix}.truststore.type": "PEM",
        f"{prefix}.truststore.certificates": authority.pem,
        f"{prefix}.client.auth": "required" if listener == "mutual" else "none",
    }
