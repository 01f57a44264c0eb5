"""The `spec` that may stand at every layer: how tasks run, how results are kept, how steps are scheduled."""

from noetl.model.shape import Anything, Flag, Key, ListOf, MapOf, Number, OneOf, Record, Text, Word, reserve_key

TEXT = Text()
TEMPLATE = Text(templated=True)
NAME = Text(name=True)
MAP = MapOf(Anything())
ARGUMENTS = OneOf((MAP, TEMPLATE))
SECONDS = Number(minimum=0, templated=True)
COUNT = Number(integer=True, minimum=1, templated=True)
BYTES = Number(integer=True, minimum=0)


_RESULT = Record(
    title="`result`",
    keys={
        "inline_max_bytes": Key(BYTES, "A larger payload is stored and travels by reference.", default=65_536),
        "select": Key(MapOf(TEXT), "Fields lifted into the event by name: JSONPath of each."),
        "store": Key(Word(("auto", "blob", "object_store", "relational", "nats")), "Which store.", default="auto"),
        "ttl": Key(OneOf((TEXT, Number(minimum=0))), 'How long the payload is kept: seconds, or "24h".'),
    },
)

RUNTIME: dict[str, Key] = {
    "timeout": Key(
        OneOf(
            (
                SECONDS,
                Record(
                    title="`timeout`",
                    keys={
                        "connect": Key(SECONDS, "http: to connect."),
                        "read": Key(SECONDS, "http: between two reads."),
                        "total": Key(SECONDS, "In all."),
                    },
                ),
            )
        ),
        "Seconds a task may take; for http also `{connect, read}`.",
    ),
    "retries": Key(
        Number(integer=True, minimum=0),
        "http, postgres: how often the driver itself tries again where there was no answer at all, after 0.1 s and then twice as long each time. Answers that are errors are for a rule with `do: retry`, which is recorded.",
        default=0,
    ),
    "pool_size": Key(COUNT, "http, postgres: connections kept open."),
    "verify": Key(Flag(templated=True), "http: check the server's certificate.", default=True),
    "result": Key(_RESULT, "How results are kept."),
    "validate": Key(
        Record(
            title="`validate`",
            keys={
                "input": Key(Anything(literal=True), "JSON Schema of the input."),
                "output": Key(Anything(literal=True), "JSON Schema of the output's data."),
            },
        ),
        "JSON Schemas checked at the boundary.",
    ),
    "isolation": Key(Word(("none", "process", "strict")), "How far a tool is kept from the worker."),
    "network": Key(Word(("on", "off")), "Whether a tool may use the network."),
    "allow_hosts": Key(ListOf(TEXT), "Hosts a tool may reach; layers intersect."),
    "limits": Key(
        Record(
            title="`limits`",
            keys={
                "memory_mb": Key(Number(minimum=1), "Memory of a tool's process."),
                "cpu_s": Key(Number(minimum=0), "Processor time of a tool's process."),
                "output_bytes": Key(BYTES, "Bytes a tool may print or return."),
                "processes": Key(Number(integer=True, minimum=1), "Processes a tool may start."),
            },
        ),
        "Limits of a tool's process; the smallest layer wins.",
    ),
    "packages": reserve_key("install the packages where the workers run, in the environment of `noetl`"),
}

SCHEDULING: dict[str, Key] = {
    "pool": Key(TEMPLATE, "The worker pool that runs the step; in one process it means nothing."),
    "priority": Key(
        Number(integer=True, templated=True), "Of what waits for the same workers, higher goes first.", default=0
    ),
    "concurrency": Key(
        Record(
            title="`concurrency`",
            keys={
                "key": Key(
                    TEMPLATE,
                    "Runs with the same key count together, whatever they are of; without one, runs of this step.",
                ),
                "limit": Key(COUNT, "How many at a time.", required=True),
                "on_limit": Key(
                    Word(("queue", "cancel_new", "cancel_running")),
                    "Beyond it, the new one waits, or fails, or the oldest fail.",
                    default="queue",
                ),
            },
        ),
        "How many runs of this step, or iterations of its loop, at a time, over all executions.",
    ),
    "rate": Key(
        Record(
            title="`rate`",
            keys={
                "key": Key(
                    TEMPLATE,
                    "Runs with the same key count together, whatever they are of; without one, runs of this step.",
                ),
                "limit": Key(COUNT, "How many starts in any period of that length.", required=True),
                "per_s": Key(SECONDS, "The period in seconds.", required=True),
            },
        ),
        "How often this step, or an iteration of its loop, may start, over all executions; others wait.",
    ),
    "lease": reserve_key("remove it; the cluster's lease applies", dropped=True),
}


# What a keychain entry may say.


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
