"""What a keychain entry may say."""

from noetl.lang.grammar_spec import COUNT, MAP, NAME, TEMPLATE, TEXT
from noetl.model.shape import Key, ListOf, OneOf, Record, Word

CREDENTIAL_KINDS = (
    "postgres_credential",
    "duckdb_credential",
    "s3_credential",
    "bearer",
    "basic",
    "header",
    "oauth2_client_credentials",
    "secret_manager",
    "generic",
)

CREDENTIAL = Record(
    title="a keychain entry",
    keys={
        "name": Key(NAME, "How tasks refer to it: `auth: <name>`.", required=True),
        "kind": Key(Word(CREDENTIAL_KINDS), "What it is.", required=True),
        "from": Key(
            Record(
                title="`from`",
                keys={
                    "env": Key(TEXT, "An environment variable."),
                    "file": Key(TEXT, "A file."),
                    "vault": Key(TEXT, "A path in Vault."),
                    "store": Key(TEXT, "An entry of the encrypted credential store."),
                },
            ),
            "Where it comes from; by default the credential store, by name.",
        ),
        "provider": Key(TEMPLATE, "secret_manager: `env`, `file`, `vault` or a plugin's."),
        "secret": Key(TEMPLATE, "secret_manager: the name of the secret."),
        "key": Key(TEMPLATE, "One field of the secret."),
        "header": Key(TEXT, "header: the name of the header."),
        "prefix": Key(TEXT, "header: text before the value."),
        "token_url": Key(TEMPLATE, "oauth2: where tokens are issued."),
        "client_id": Key(TEMPLATE, "oauth2: the client."),
        "client_secret": Key(TEMPLATE, "oauth2: its secret."),
        "scope": Key(OneOf((TEMPLATE, ListOf(TEXT))), "oauth2: the scope asked for."),
        "audience": Key(TEMPLATE, "oauth2: the audience asked for."),
        "token": Key(TEMPLATE, "bearer: the token."),
        "username": Key(TEMPLATE, "basic: the user."),
        "password": Key(TEMPLATE, "basic, postgres_credential: the password."),
        "value": Key(TEMPLATE, "header, generic: the value."),
        "dsn": Key(TEMPLATE, "postgres_credential: the address, in place of its parts."),
        "host": Key(TEMPLATE, "postgres_credential: the host."),
        "port": Key(COUNT, "postgres_credential: the port."),
        "database": Key(TEMPLATE, "postgres_credential: the database."),
        "user": Key(TEMPLATE, "postgres_credential: the user."),
        "sslmode": Key(TEMPLATE, "postgres_credential: `require`, `verify-full` …"),
        "access_key_id": Key(TEMPLATE, "s3_credential: the access key."),
        "secret_access_key": Key(TEMPLATE, "s3_credential: its secret."),
        "session_token": Key(TEMPLATE, "s3_credential: the token of a session."),
        "region": Key(TEMPLATE, "s3_credential: the region."),
        "endpoint": Key(TEMPLATE, "s3_credential: the address of a service that is not Amazon's."),
        "bucket": Key(TEMPLATE, "s3_credential: the bucket, where a task names none."),
        "options": Key(MAP, "Further settings, by kind."),
    },
)
