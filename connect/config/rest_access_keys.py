"""Config keys that say who may use a worker's REST API. Kafka has none of them. A key that matches
a broker setting ends with that setting's name."""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigScalar, ConfigType
from connect.config.validators import Range, Validator, ValidList

__all__ = [
    "ADMINS",
    "ALLOWED_HOSTS",
    "ALLOWED_HOSTS_KEY",
    "AUDIT_FILE",
    "CERTIFICATE_RULES",
    "OAUTH_PREFIX",
    "OPERATORS",
    "REST_ACCESS_KEYS",
    "VIEWERS",
]

VIEWERS, OPERATORS = "rest.users.viewers", "rest.users.operators"
ADMINS = "rest.users.admins"
CERTIFICATE_RULES = "rest.ssl.principal.mapping.rules"
ALLOWED_HOSTS = "rest.allowed.hosts"
AUDIT_FILE = "rest.audit.log.file"
OAUTH_PREFIX = "rest.oauthbearer."

_LIST, _STRING, _INT = ConfigType.LIST, ConfigType.STRING, ConfigType.INT


def _key(
    name: str,
    kind: ConfigType,
    default: ConfigScalar,
    doc: str,
    validator: Validator | None = None,
) -> ConfigKey:
    text = f"{doc} Not a key of Kafka Connect."
    return ConfigKey(name, kind, default, validator, Importance.LOW, text)


ALLOWED_HOSTS_KEY = _key(
    ALLOWED_HOSTS,
    _LIST,
    (),
    "Host names by which clients may call this worker; other requests get 403. `*` allows all. "
    "Without it, and without authentication, changes from browsers are accepted only by IP "
    "address, localhost and the worker's own names.",
    ValidList(),
)

REST_ACCESS_KEYS = (
    _key(VIEWERS, _LIST, (), "Users that may only read.", ValidList()),
    _key(
        OPERATORS, _LIST, (), "Users that may read, pause, resume, stop and restart.", ValidList()
    ),
    _key(
        ADMINS,
        _LIST,
        (),
        "Users that may do everything. Users of the password file that no list names may, too; "
        "those of client certificates may do nothing.",
        ValidList(),
    ),
    _key(
        CERTIFICATE_RULES,
        _STRING,
        None,
        "How the subject of a client's certificate becomes a user, as brokers' "
        "`ssl.principal.mapping.rules`. Without it, certificates name no user.",
    ),
    ALLOWED_HOSTS_KEY,
    _key(
        AUDIT_FILE,
        _STRING,
        None,
        "File to which a line is appended for each request that asks for a change. It is created "
        "again after it was renamed. Without it, such requests are only in the log.",
    ),
    _key(
        f"{OAUTH_PREFIX}jwks.endpoint.url",
        _STRING,
        None,
        "URL (https) of the keys that sign bearer tokens. Without it, tokens are not accepted.",
    ),
    _key(f"{OAUTH_PREFIX}expected.issuer", _STRING, None, "Required `iss` claim of tokens."),
    _key(
        f"{OAUTH_PREFIX}expected.audience",
        _LIST,
        (),
        "Values of which the `aud` claim of a token must have one.",
        ValidList(),
    ),
    _key(f"{OAUTH_PREFIX}sub.claim.name", _STRING, "sub", "Claim that holds the user's name."),
    _key(
        f"{OAUTH_PREFIX}roles.claim.name",
        _STRING,
        "roles",
        "Claim that holds the user's roles, a string or a list; dots lead into objects, such as "
        "`realm_access.roles`.",
    ),
    _key(
        f"{OAUTH_PREFIX}viewers",
        _LIST,
        ("connect-viewer",),
        "Values of that claim that make a viewer.",
        ValidList(),
    ),
    _key(
        f"{OAUTH_PREFIX}operators",
        _LIST,
        ("connect-operator",),
        "Values of that claim that make an operator.",
        ValidList(),
    ),
    _key(
        f"{OAUTH_PREFIX}admins",
        _LIST,
        ("connect-admin",),
        "Values of that claim that make an admin.",
        ValidList(),
    ),
    _key(
        f"{OAUTH_PREFIX}clock.skew.seconds",
        _INT,
        30,
        "By how much clocks may differ when the times of a token are checked.",
        Range(0),
    ),
)
