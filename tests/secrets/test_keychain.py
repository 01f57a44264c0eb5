"""A keychain from its sources: the store, the environment, files, Vault, OAuth2; and what it says when one is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from credential_home import Desk
from services import TokenStandIn, VaultStandIn, serving

from noetl.config import Secret
from noetl.lang.grammar.spec_shape import CREDENTIAL, CREDENTIAL_KINDS as DECLARED_KINDS
from noetl.ports import NoCredential
from noetl.redaction.redactor import MASK
from noetl.secrets.credential_kinds import CREDENTIAL_KINDS
from noetl.secrets.keychain import read_credential, variables
from noetl.secrets.sources import Vault


def test_every_kind_of_the_language_is_known() -> None:
    assert set(CREDENTIAL_KINDS) == set(DECLARED_KINDS)


async def test_the_store_is_the_default_by_name(desk: Desk) -> None:
    desk.store().add("api", "bearer", {"token": "tok-stored"})
    desk.store().add("elsewhere", "bearer", {"token": "tok-other"})
    keychain = desk.keychain("- {name: api, kind: bearer}\n- {name: b, kind: bearer, from: {store: elsewhere}}")
    assert await keychain.check() is None
    assert keychain.scope["api"]["token"] == "tok-stored"
    assert await keychain.credential("b") == {"kind": "bearer", "token": "tok-other"}
    assert keychain.redactor.text("it is tok-other") == f"it is {MASK}"


async def test_a_stored_credential_of_another_kind_is_refused(desk: Desk) -> None:
    desk.store().add("db", "bearer", {"token": "tok-stored"})
    keychain = desk.keychain("- {name: db, kind: postgres_credential}")
    assert "has a `bearer` of the name `db`, not a `postgres_credential`" in str(await keychain.check())


async def test_the_environment_and_files(desk: Desk) -> None:
    desk.environment["API_TOKEN"] = "tok-env"
    desk.environment["LOGIN"] = "ann:s3cret:with colon"
    (desk.folder / "token.txt").write_text("tok-file\n")
    keychain = desk.keychain(
        "- {name: e, kind: bearer, from: {env: API_TOKEN}}\n"
        "- {name: f, kind: header, from: {file: token.txt}, header: X-Key, prefix: 'k '}\n"
        "- {name: l, kind: basic, from: {env: LOGIN}}"
    )
    await keychain.ready()
    assert keychain.scope["e"] == {"token": "tok-env"}
    assert keychain.scope["f"] == {"value": "tok-file", "header": "X-Key", "prefix": "k "}
    assert keychain.scope["l"] == {"username": "ann", "password": "s3cret:with colon"}
    assert keychain.redactor.text("ann has s3cret:with colon") == f"ann has {MASK}"


async def test_all_that_is_missing_is_told_at_once_and_by_name(desk: Desk) -> None:
    desk.environment["EMPTY"] = ""
    keychain = desk.keychain(
        "- {name: one, kind: bearer, from: {env: NOT_SET}}\n- {name: two, kind: bearer, from: {file: none.txt}}\n"
        "- {name: three, kind: bearer}\n- {name: four, kind: bearer, from: {env: EMPTY}}\n"
        "- {name: five, kind: bearer, from: {vault: secret/x}}\n- {name: six, kind: bearer, from: {env: A, file: b}}\n"
        "- {name: seven, kind: secret_manager, provider: valt, secret: x}"
    )
    said = str(await keychain.check())
    assert said.startswith("7 credentials cannot be used: ")
    for part in (
        "`one`: the environment variable NOT_SET is not set", "none.txt cannot be read: No such file",
        "`noetl credential add three`", "EMPTY is empty", "set VAULT_ADDR and VAULT_TOKEN", "several sources: env, file",
        "no provider `valt`; did you mean `vault`?",
    ):  # fmt: skip
        assert part in said
    with pytest.raises(NoCredential):
        await keychain.ready()


async def test_one_text_may_be_a_map_and_one_part_of_it_may_be_picked(desk: Desk) -> None:
    desk.environment |= {"MAP": '{"user": "ann", "token": "tok-map", "port": 5432}', "TEXT": "tok-text"}
    keychain = desk.keychain(
        "- {name: whole, kind: generic, from: {env: MAP}}\n- {name: part, kind: bearer, from: {env: MAP}, key: token}\n"
        "- {name: text, kind: generic, from: {env: TEXT}}\n"
        "- {name: manager, kind: secret_manager, provider: env, secret: MAP, key: token}"
    )
    await keychain.ready()
    assert keychain.scope["whole"]["port"] == 5432
    assert keychain.scope["part"] == {"token": "tok-map"}
    assert keychain.scope["text"] == {"value": "tok-text"}
    assert keychain.scope["manager"]["value"] == "tok-map"
    lost = desk.keychain("- {name: x, kind: bearer, from: {env: MAP}, key: tokn}")
    said = str(await lost.check())
    assert "has no `tokn`; it has port, token, user" in said
    assert "tok-map" not in said


async def test_a_postgres_address_is_taken_apart_and_only_its_secrets_are_secret(desk: Desk) -> None:
    desk.environment["DSN"] = "postgresql://etl:p%40ss%2Fword@db.local:5433/sales"
    keychain = desk.keychain("- {name: pg, kind: postgres_credential, from: {env: DSN}}")
    found = await keychain.credential("pg")
    assert (found["host"], found["port"], found["user"], found["database"]) == ("db.local", 5433, "etl", "sales")
    assert found["password"] == "p@ss/word"
    said = keychain.redactor.text("etl at db.local: p@ss/word, p%40ss%2Fword, sales")
    assert said == f"etl at db.local: {MASK}, {MASK}, sales"


@pytest.mark.parametrize("dsn", ["postgresql://u:p@VerySecret/word#1@127.0.0.1:5432/db", "postgresql://u:p/VerySecret@h/db", "VerySecret"])  # fmt: skip
async def test_an_address_with_a_password_that_is_not_written_as_an_address_has_it_is_refused_with_a_hint(
    desk: Desk, dsn: str
) -> None:
    desk.environment["DSN"] = dsn
    desk.store().add("stored", "postgres_credential", {"dsn": dsn})
    said = str(await desk.keychain("- {name: pg, kind: postgres_credential, from: {env: DSN}}").check())
    assert "`pg`: it has an address that is none (`dsn`); write postgresql://USER:PASSWORD@HOST:5432/DATABASE" in said
    assert "@ / # % are written %40 %2F %23 %25" in said
    with pytest.raises(NoCredential) as caught:
        read_credential(desk.store(), "stored")
    assert "verysecret" not in (said + str(caught.value)).lower()


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("postgres_credential", '{"host":"h","user":"u","passwort":"hush-hush"}', "`passwort` is no part of a `postgres_credential`: did you mean `password`?"),
        ("s3_credential", '{"access_key":"a","secret_key":"hush-hush","regoin":"x"}', "did you mean `region`?"),
        ("s3_credential", '{"access_key_id":"a","secret_acces_key":"hush-hush"}', "needs `secret_access_key`; there is no `secret_acces_key` (did you mean"),
        ("s3_credential", "not json hush-hush", '`IT` is no JSON map, as a `s3_credential` is: {"access_key_id": "…", "secret_access_key": "…"}'),
        ("s3_credential", '{"access_key_id": "hush-hush"', "`IT` is no JSON map"),
        ("basic", "hush-hush", '`IT` is no JSON map, as a `basic` is: {"username": "…", "password": "…"}, or USER:PASSWORD'),
    ],
)  # fmt: skip
async def test_a_value_with_a_misspelt_part_or_none_at_all_is_told_with_what_is_meant(
    desk: Desk, kind: str, value: str, said: str
) -> None:
    desk.environment["IT"] = value
    told = str(await desk.keychain(f"- {{name: it, kind: {kind}, from: {{env: IT}}}}").check())
    assert said in told
    assert "hush" not in told


async def test_every_part_of_a_kind_may_stand_in_the_entry_itself(desk: Desk) -> None:
    desk.environment["RAW"] = "pw-of-ann"
    desk.environment["REST"] = '{"password": "pw-of-eve"}'
    keychain = desk.keychain(
        """- {name: raw, kind: generic, from: {env: RAW}}
- {name: db, kind: postgres_credential, host: 127.0.0.1, port: 5432, database: x, user: ann, sslmode: require, password: "{{ keychain.raw.value }}"}
- {name: lake, kind: s3_credential, access_key_id: a, secret_access_key: "{{ keychain.raw.value }}", endpoint: "http://h", region: r, bucket: b}
- {name: rest, kind: postgres_credential, host: h, user: eve, from: {env: REST}}"""
    )
    assert await keychain.check() is None
    assert keychain.scope["db"] == {
        "host": "127.0.0.1", "port": 5432, "database": "x", "user": "ann", "sslmode": "require", "password": "pw-of-ann"
    }  # fmt: skip
    assert keychain.scope["lake"]["endpoint"] == "http://h"
    assert keychain.scope["rest"] == {"host": "h", "user": "eve", "password": "pw-of-eve"}
    known = {part for kind in CREDENTIAL_KINDS.values() for part in (*kind.required, *kind.optional)}
    assert known <= set(CREDENTIAL.keys)


async def test_parts_go_by_the_names_that_others_give_them_and_others_may_stand_beside_them(desk: Desk) -> None:
    desk.environment["PG"] = '{"hostname":"h","username":"u","pwd":"pw-of-u","dbname":"d","team":"x","sslrootcert":"c"}'
    found = await desk.keychain("- {name: pg, kind: postgres_credential, from: {env: PG}}").credential("pg")
    assert (found["host"], found["user"], found["password"], found["database"]) == ("h", "u", "pw-of-u", "d")
    assert found["team"] == "x"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{file: ~nosuchuser/x}", "cannot be read: Could not determine home directory"),
        ('{file: "a\\0b"}', r"a\x00b' cannot be read: embedded null byte"),
        ("{vault: secret/x}, options: {version: abc}", "`options.version` of a secret in Vault must be a number, not the text 'abc'"),
        ("{vault: secret/x}, options: {version: [1]}", "must be a number, not a list"),
    ],
)  # fmt: skip
async def test_a_source_that_cannot_be_is_told_in_a_sentence(desk: Desk, source: str, said: str) -> None:
    desk.vault = Vault("http://127.0.0.1:1", Secret("t"))
    assert said in str(await desk.keychain(f"- {{name: a, kind: bearer, from: {source}}}").check())


@pytest.mark.parametrize(
    ("dsn", "passwords"),
    [
        ("postgresql://u:Hunter\u2100Secret@h:5432/db", ["Hunter\u2100Secret"]),
        ("postgresql://u:pa[ss99@h/db", ["pa[ss99"]),
        ("host=db user=u password=SuperSecret99 dbname=x", ["SuperSecret99"]),
        (r"host=db password='it\'s Secret 99'", ["it's Secret 99"]),
        ("postgresql://h/db?user=u&password=Super%20Secret99&sslpassword=Key99", ["Super Secret99", "Super%20Secret99", "Key99"]),
    ],
    ids=["not Unicode as hosts have it", "brackets", "settings", "quoted settings", "parameters"],
)  # fmt: skip
async def test_the_password_of_an_address_is_a_secret_in_every_form_of_address(
    desk: Desk, dsn: str, passwords: list[str]
) -> None:
    desk.environment["DSN"] = dsn
    keychain = desk.keychain("- {name: pg, kind: postgres_credential, from: {env: DSN}}")
    assert await keychain.check() is None
    for password in passwords:
        assert keychain.redactor.text(f"PASSWORD: {password}.") == f"PASSWORD: {MASK}."


async def test_numbers_are_secrets_only_where_their_name_says_so(desk: Desk) -> None:
    desk.environment["MAP"] = (
        '{"timeout": 3000, "pin": 4711, "api_key": 778899, "retries": "3", "nested": {"port": 8080}}'
    )
    keychain = desk.keychain("- {name: a, kind: generic, from: {env: MAP}}")
    assert await keychain.check() is None
    said = {"timeout": 3000, "pin": 4711, "key": 778899, "retries": "3", "port": 8080}
    assert keychain.redactor.clean(said)[0] == {**said, "pin": MASK, "key": MASK}


async def test_other_names_of_parts_are_understood(desk: Desk) -> None:
    desk.store().add("lake", "s3_credential", {"access_key": "AKIA1234", "secret_key": "abcdefgh", "region": "eu"})
    desk.store().add("db", "generic", {"username": "ann", "password": "pw-123456", "dbname": "x", "host": "h"})
    keychain = desk.keychain("- {name: lake, kind: s3_credential}\n- {name: db, kind: postgres_credential}")
    assert (await keychain.credential("lake"))["secret_access_key"] == "abcdefgh"
    assert (await keychain.credential("db"))["user"] == "ann"


async def test_an_entry_may_read_another_and_the_workload_but_not_itself(desk: Desk) -> None:
    desk.environment["PASSWORD"] = "pw-987654"
    keychain = desk.keychain(
        "- {name: login, kind: basic, username: '{{ workload.user }}', password: '{{ keychain.raw.value }}'}\n"
        "- {name: raw, kind: generic, from: {env: PASSWORD}}",
        user="ann",
    )
    assert await keychain.credential("login") == {"kind": "basic", "username": "ann", "password": "pw-987654"}
    circle = desk.keychain(
        "- {name: a, kind: bearer, token: '{{ keychain.b.token }}'}\n- {name: b, kind: bearer, token: '{{ keychain.a.token }}'}"
    )
    assert "it reads itself: a → b → a" in str(await circle.check())


async def test_a_credential_that_nobody_declared_comes_from_the_store(desk: Desk) -> None:
    desk.store().add("undeclared", "bearer", {"token": "tok-undeclared"})
    keychain = desk.keychain("- {name: a, kind: bearer, token: tok-a}")
    assert (await keychain.credential("undeclared"))["token"] == "tok-undeclared"
    with pytest.raises(NoCredential, match="does not declare `nope`"):
        await keychain.credential("nope")


def test_the_variables_that_hold_credentials_are_known_from_the_playbook(desk: Desk) -> None:
    playbook = desk.playbook(
        "- {name: a, kind: bearer, from: {env: ONE}}\n- {name: b, kind: secret_manager, provider: env, secret: TWO}\n"
        "- {name: c, kind: bearer, from: {file: THREE}}\n- {name: d, kind: bearer}",
        "- {step: start, tool: {kind: secrets, provider: env, secret: FOUR}}",
    )
    assert variables(playbook) == {"ONE", "TWO", "FOUR"}


# --- Vault -------------------------------------------------------------------------------------------------------------


async def test_vault_is_asked_as_its_api_wants_it(desk: Desk) -> None:
    vault = VaultStandIn("hvs.root-token")
    vault.secrets["secret/crm/api"] = [{"token": "tok-v1"}, {"token": "tok-v2"}]
    vault.secrets["kv/db"] = [{"username": "ann", "password": "pw-vault"}]
    async with serving(*vault.routes()) as address:
        desk.vault = Vault(address + "/", Secret("hvs.root-token"), "team")
        keychain = desk.keychain(
            "- {name: api, kind: bearer, from: {vault: secret/data/crm/api}}\n"
            "- {name: short, kind: bearer, from: {vault: secret/crm/api}}\n"
            "- {name: old, kind: bearer, from: {vault: secret/crm/api}, options: {version: 1}}\n"
            "- {name: db, kind: basic, from: {vault: kv/db}}\n"
            "- {name: managed, kind: secret_manager, provider: vault, secret: kv/db, key: password}"
        )
        assert await keychain.check() is None
        assert await keychain.secret("vault", "kv/db", "password") == "pw-vault"
        await desk.web.close()
    assert [keychain.scope[name].get("token") for name in ("api", "short", "old")] == ["tok-v2", "tok-v2", "tok-v1"]
    assert keychain.scope["db"]["password"] == "pw-vault"
    assert keychain.scope["managed"]["value"] == "pw-vault"
    assert set(vault.namespaces) == {"team"}


async def test_what_vault_refuses_is_told_without_its_token(desk: Desk) -> None:
    vault = VaultStandIn("hvs.root-token")
    vault.secrets |= {"secret/denied": [{"a": "b"}], "secret/deleted": [{"a": "b"}, None]}
    vault.denied.add("secret/denied")
    entries = "\n".join(
        f"- {{name: {name}, kind: bearer, from: {{vault: secret/{name}}}}}" for name in ("denied", "deleted", "absent")
    )
    async with serving(*vault.routes()) as address:
        desk.vault = Vault(address, Secret("hvs.root-token"))
        said = str(await desk.keychain(entries).check())
        assert "may not read it" in said
        assert said.count("not there, or was deleted") == 2
        vault.sealed = True
        with pytest.raises(NoCredential, match="sealed") as told:
            await desk.keychain(entries).ready()
        assert told.value.retryable
        await desk.web.close()
    with pytest.raises(NoCredential, match="does not answer") as told:
        await desk.keychain(entries).ready()
    assert told.value.retryable
    assert "hvs." not in said + str(told.value)
    await desk.web.close()


# --- OAuth2 ------------------------------------------------------------------------------------------------------------

OAUTH = (
    "- {name: oauth, kind: oauth2_client_credentials, token_url: '{{ workload.url }}/token', client_id: noetl, "
    "client_secret: '{{ keychain.raw.value }}', scope: [read, write], audience: crm}\n"
    "- {name: raw, kind: generic, from: {env: CLIENT_SECRET}}"
)


async def test_a_token_is_asked_for_once_shared_and_renewed_before_it_runs_out(desk: Desk) -> None:
    desk.environment["CLIENT_SECRET"] = "cs-55aa-77"
    server = TokenStandIn("noetl", "cs-55aa-77", lives=100)
    async with serving(*server.routes()) as url:
        keychain = desk.keychain(OAUTH, url=url)
        assert await keychain.check() is None
        assert server.forms == []  # a secret that is there is enough to start
        found = await asyncio.gather(*(keychain.credential("oauth") for _ in range(50)))
        assert {one["token"] for one in found} == {server.issued[0]}
        assert server.forms[0]["scope"] == "read write"
        assert server.forms[0]["audience"] == "crm"
        desk.now += 89
        assert (await keychain.credential("oauth"))["token"] == server.issued[0]
        desk.now += 2
        assert (await keychain.credential("oauth"))["token"] == server.issued[1]
        assert keychain.redactor.text(f"{server.issued[0]} {server.issued[1]}") == f"{MASK} {MASK}"
        await desk.web.close()
    assert len(server.forms) == 2


async def test_an_answer_that_comes_in_parts_is_read_to_its_end(desk: Desk) -> None:
    desk.environment["CLIENT_SECRET"] = "cs-55aa-77"

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for part in (b'{"access_token": "tok-in-', b'two-parts", ', b'"expires_in": 100}'):
            await response.write(part)
            await asyncio.sleep(0.05)
        return response

    async with serving(web.post("/token", answer)) as url:
        assert (await desk.keychain(OAUTH, url=url).credential("oauth"))["token"] == "tok-in-two-parts"
        await desk.web.close()


async def test_of_tokens_that_were_renewed_the_last_ones_stay_secrets(desk: Desk) -> None:
    desk.environment["CLIENT_SECRET"] = "cs-55aa-77"
    server = TokenStandIn("noetl", "cs-55aa-77", lives=100)
    async with serving(*server.routes()) as url:
        keychain = desk.keychain(OAUTH, url=url)
        for _ in range(10):
            await keychain.credential("oauth")
            desk.now += 100
        await desk.web.close()
    shown = [keychain.redactor.text(token) == token for token in server.issued]
    assert shown == [True] * 2 + [False] * 8


async def test_a_refused_token_is_renewed_once_for_all_who_had_it(desk: Desk) -> None:
    desk.environment["CLIENT_SECRET"] = "cs-55aa-77"
    server = TokenStandIn("noetl", "cs-55aa-77")
    async with serving(*server.routes()) as url:
        keychain = desk.keychain(OAUTH, url=url)
        used = await keychain.credential("oauth")
        renewed = await asyncio.gather(*(keychain.renew_credential("oauth", used) for _ in range(20)))
        assert {one["token"] for one in renewed if one} == {server.issued[1]}
        assert await keychain.renew_credential("raw", {}) is None
        await desk.web.close()
    assert len(server.issued) == 2


async def test_a_token_that_templates_read_is_there_before_they_do(desk: Desk) -> None:
    desk.environment["CLIENT_SECRET"] = "cs-55aa-77"
    server = TokenStandIn("noetl", "cs-55aa-77", lives=50)
    async with serving(*server.routes()) as url:
        keychain = desk.keychain(OAUTH, url=url)
        await keychain.ready({"oauth"})
        assert keychain.scope["oauth"]["token"] == server.issued[0]
        desk.now += 60
        await keychain.ready({"oauth"})
        assert keychain.scope["oauth"]["token"] == server.issued[1]
        await desk.web.close()


@pytest.mark.parametrize("way", ["basic", "body"])
async def test_a_server_that_wants_the_secret_elsewhere_gets_it_there(desk: Desk, way: str) -> None:
    desk.environment["CLIENT_SECRET"] = "cs-55aa-77"
    server = TokenStandIn("noetl", "cs-55aa-77", way=way)
    async with serving(*server.routes()) as url:
        assert (await desk.keychain(OAUTH, url=url).credential("oauth"))["token"] == server.issued[0]
        await desk.web.close()


async def test_a_token_that_is_not_given_is_told_without_the_secret(desk: Desk) -> None:
    desk.environment["CLIENT_SECRET"] = "cs-wrong-1234"
    server = TokenStandIn("noetl", "cs-55aa-77")
    async with serving(*server.routes()) as url:
        with pytest.raises(NoCredential, match=r"no token for `oauth` .*401 invalid_client") as told:
            await desk.keychain(OAUTH, url=url).credential("oauth")
        assert not told.value.retryable
        assert "cs-wrong" not in str(told.value)
        server.broken = True
        with pytest.raises(NoCredential, match="500") as told:
            await desk.keychain(OAUTH, url=url).credential("oauth")
        assert told.value.retryable
        await desk.web.close()


def test_a_secret_of_the_settings_shows_itself_to_nobody(tmp_path: Path) -> None:
    from noetl.config import Settings

    settings = Settings(tmp_path, key=Secret("do-not-show"), vault_token=Secret("nor-this"))
    assert "do-not-show" not in repr(settings) + str(settings) + f"{settings}"
    assert "nor-this" not in repr(settings)
