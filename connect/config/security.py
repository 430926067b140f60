"""Connection keys of all Kafka clients: protocol, TLS and SASL (Kafka 4.3.1).

MirrorMaker 2 passes the keys in `CLIENT_CONFIG_NAMES` from clusters to clients.
`connect.clients.config.properties` defines their effect here, and warns about keys without one.
"""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigScalar, ConfigType
from connect.config.validators import OneOf, Range, Validator, ValidList

__all__ = ["CLIENT_CONFIG_NAMES", "SECURITY_KEYS", "SECURITY_PROTOCOLS"]

SECURITY_PROTOCOLS = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _LIST, _CLASS = ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS
_PASSWORD, _LONG, _INT = ConfigType.PASSWORD, ConfigType.LONG, ConfigType.INT
_SHORT, _DOUBLE, _BOOLEAN = ConfigType.SHORT, ConfigType.DOUBLE, ConfigType.BOOLEAN

_OAUTH = "org.apache.kafka.common.security.oauthbearer."


def _key(
    name: str,
    kind: ConfigType,
    default: ConfigScalar,
    importance: Importance,
    doc: str,
    validator: Validator | None = None,
) -> ConfigKey:
    return ConfigKey(name, kind, default, validator, importance, doc)


_SSL_KEYS = (
    _key(
        "ssl.cipher.suites",
        _LIST,
        (),
        _LOW,
        "Cipher suites to offer; empty offers all.",
        ValidList(),
    ),
    _key(
        "ssl.enabled.protocols",
        _LIST,
        ("TLSv1.2", "TLSv1.3"),
        _MEDIUM,
        "TLS versions that may be negotiated.",
        ValidList(),
    ),
    _key(
        "ssl.endpoint.identification.algorithm",
        _STRING,
        "https",
        _LOW,
        "`https` verifies the host name in the broker's certificate; empty disables the check.",
    ),
    _key("ssl.engine.factory.class", _CLASS, None, _LOW, "A Java class; not supported here."),
    _key("ssl.key.password", _PASSWORD, None, _HIGH, "Password of the private key."),
    _key("ssl.keymanager.algorithm", _STRING, "SunX509", _LOW, "Java only; no effect here."),
    _key(
        "ssl.keystore.certificate.chain",
        _PASSWORD,
        None,
        _HIGH,
        "The client's certificate chain as PEM text, its own certificate first.",
    ),
    _key("ssl.keystore.key", _PASSWORD, None, _HIGH, "The private key as PEM text (PKCS#8)."),
    _key("ssl.keystore.location", _STRING, None, _HIGH, "File with the client's key and chain."),
    _key("ssl.keystore.password", _PASSWORD, None, _HIGH, "Password of the key store file."),
    _key(
        "ssl.keystore.type", _STRING, "JKS", _MEDIUM, "Format of the key store: PEM, PKCS12, JKS."
    ),
    _key("ssl.protocol", _STRING, "TLSv1.3", _MEDIUM, "The newest TLS version to use."),
    _key("ssl.provider", _STRING, None, _MEDIUM, "A Java security provider; no effect here."),
    _key("ssl.secure.random.implementation", _STRING, None, _LOW, "Java only; no effect here."),
    _key("ssl.trustmanager.algorithm", _STRING, "PKIX", _LOW, "Java only; no effect here."),
    _key(
        "ssl.truststore.certificates",
        _PASSWORD,
        None,
        _HIGH,
        "Certificates to trust, as PEM text.",
    ),
    _key("ssl.truststore.location", _STRING, None, _HIGH, "File with the certificates to trust."),
    _key("ssl.truststore.password", _PASSWORD, None, _HIGH, "Password of the trust store file."),
    _key(
        "ssl.truststore.type",
        _STRING,
        "JKS",
        _MEDIUM,
        "Format of the trust store: PEM, PKCS12, JKS.",
    ),
)

_SASL_KEYS = (
    _key(
        "sasl.mechanism",
        _STRING,
        "GSSAPI",
        _MEDIUM,
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI or AWS_MSK_IAM.",
    ),
    _key("sasl.jaas.config", _PASSWORD, None, _MEDIUM, "The login module and its options."),
    _key(
        "sasl.client.callback.handler.class",
        _CLASS,
        None,
        _MEDIUM,
        "A Java class; not supported here.",
    ),
    _key(
        "sasl.login.callback.handler.class", _CLASS, None, _MEDIUM, "Class that retrieves tokens."
    ),
    _key("sasl.login.class", _CLASS, None, _MEDIUM, "A Java class; not supported here."),
    _key("sasl.login.connect.timeout.ms", _INT, None, _LOW, "Connect timeout of the token URL."),
    _key("sasl.login.read.timeout.ms", _INT, None, _LOW, "Read timeout of the token URL."),
    _key(
        "sasl.login.refresh.buffer.seconds",
        _SHORT,
        300,
        _LOW,
        "Remaining lifetime at which a token is renewed, in seconds.",
        Range(0, 3600),
    ),
    _key(
        "sasl.login.refresh.min.period.seconds",
        _SHORT,
        60,
        _LOW,
        "Minimum time between two renewals, in seconds.",
        Range(0, 900),
    ),
    _key(
        "sasl.login.refresh.window.factor",
        _DOUBLE,
        0.8,
        _LOW,
        "Share of a token's lifetime after which it is renewed.",
        Range(0.5, 1.0),
    ),
    _key(
        "sasl.login.refresh.window.jitter",
        _DOUBLE,
        0.05,
        _LOW,
        "Random jitter of the renewal, as a share of the lifetime.",
        Range(0.0, 0.25),
    ),
    _key("sasl.login.retry.backoff.max.ms", _LONG, 10_000, _LOW, "Maximum wait between retries."),
    _key("sasl.login.retry.backoff.ms", _LONG, 100, _LOW, "Initial wait between retries."),
    _key(
        "sasl.kerberos.kinit.cmd",
        _STRING,
        "/usr/bin/kinit",
        _LOW,
        "No effect: no command is run to get tickets.",
    ),
    _key(
        "sasl.kerberos.min.time.before.relogin",
        _LONG,
        60_000,
        _LOW,
        "No effect, as no command logs in.",
    ),
    _key("sasl.kerberos.service.name", _STRING, None, _MEDIUM, "The brokers' Kerberos principal."),
    _key(
        "sasl.kerberos.ticket.renew.jitter",
        _DOUBLE,
        0.05,
        _LOW,
        "No effect, see sasl.kerberos.ticket.renew.window.factor.",
    ),
    _key(
        "sasl.kerberos.ticket.renew.window.factor",
        _DOUBLE,
        0.8,
        _LOW,
        "No effect: a new ticket is requested when a connection is opened after half of the old "
        "ticket's lifetime.",
    ),
)

_OAUTH_KEYS = tuple(
    _key("sasl.oauthbearer." + name, kind, default, importance, doc, validator)
    for name, kind, default, importance, doc, validator in (
        (
            "assertion.algorithm",
            _STRING,
            "RS256",
            _MEDIUM,
            "Signature algorithm of the JWT assertion.",
            OneOf(("ES256", "RS256"), ignore_case=True),
        ),
        ("assertion.claim.aud", _STRING, None, _MEDIUM, "Audience of the assertion.", None),
        (
            "assertion.claim.exp.seconds",
            _INT,
            300,
            _LOW,
            "Lifetime of the assertion, in seconds.",
            Range(0, 86400),
        ),
        ("assertion.claim.iss", _STRING, None, _MEDIUM, "Issuer of the assertion.", None),
        ("assertion.claim.jti.include", _BOOLEAN, False, _MEDIUM, "Whether it has an id.", None),
        (
            "assertion.claim.nbf.seconds",
            _INT,
            60,
            _LOW,
            "Seconds it is valid before now.",
            Range(0, 3600),
        ),
        ("assertion.claim.sub", _STRING, None, _MEDIUM, "Subject of the assertion.", None),
        ("assertion.file", _STRING, None, _MEDIUM, "File with a signed assertion.", None),
        ("assertion.private.key.file", _STRING, None, _MEDIUM, "Key that signs assertions.", None),
        (
            "assertion.private.key.passphrase",
            _PASSWORD,
            None,
            _MEDIUM,
            "Passphrase of the private key.",
            None,
        ),
        ("assertion.template.file", _STRING, None, _MEDIUM, "JSON file with claims.", None),
        ("client.credentials.client.id", _STRING, None, _MEDIUM, "OAuth client id.", None),
        ("client.credentials.client.secret", _PASSWORD, None, _MEDIUM, "OAuth secret.", None),
        ("clock.skew.seconds", _INT, 30, _LOW, "Brokers only; no effect in clients.", None),
        (
            "expected.audience",
            _LIST,
            (),
            _HIGH,
            "Brokers only; no effect in clients.",
            ValidList(),
        ),
        ("expected.issuer", _STRING, None, _HIGH, "Brokers only; no effect in clients.", None),
        ("header.urlencode", _BOOLEAN, False, _LOW, "URL-encode id and secret (RFC 6749).", None),
        ("jwks.endpoint.refresh.ms", _LONG, 3_600_000, _LOW, "Brokers only.", None),
        ("jwks.endpoint.retry.backoff.max.ms", _LONG, 10_000, _LOW, "Brokers only.", None),
        ("jwks.endpoint.retry.backoff.ms", _LONG, 100, _LOW, "Brokers only.", None),
        ("jwks.endpoint.url", _STRING, None, _MEDIUM, "Brokers only.", None),
        (
            "jwt.retriever.class",
            _CLASS,
            _OAUTH + "DefaultJwtRetriever",
            _MEDIUM,
            "Class that retrieves tokens.",
            None,
        ),
        (
            "jwt.validator.class",
            _CLASS,
            _OAUTH + "DefaultJwtValidator",
            _MEDIUM,
            "Java only; no effect here.",
            None,
        ),
        ("scope", _STRING, None, _MEDIUM, "Scope of requested tokens.", None),
        ("scope.claim.name", _STRING, "scope", _LOW, "Claim with the scope.", None),
        ("sub.claim.name", _STRING, "sub", _LOW, "Claim with the subject.", None),
        ("token.endpoint.url", _STRING, None, _MEDIUM, "URL of the token endpoint.", None),
    )
)

SECURITY_KEYS: tuple[ConfigKey, ...] = (
    _key(
        "security.protocol",
        _STRING,
        "PLAINTEXT",
        _MEDIUM,
        "Security protocol of the brokers: plaintext or TLS, with or without SASL.",
        OneOf(SECURITY_PROTOCOLS, ignore_case=True),
    ),
    *_SSL_KEYS,
    *_SASL_KEYS,
    *_OAUTH_KEYS,
)

CLIENT_CONFIG_NAMES: frozenset[str] = frozenset(
    {"bootstrap.servers", *(key.name for key in SECURITY_KEYS)}
)
