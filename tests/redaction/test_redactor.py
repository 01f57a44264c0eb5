"""A secret is found in every spelling, in data, text and bytes, and across the pieces in which it comes."""

from __future__ import annotations

import base64
import html
import json
import random
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from noetl.redaction.redactor import MASK, Redactor

SECRET = "tok/93af+5521=Ünïque\"quoted'&<x> y"
PLAIN = "k7Jx93afQ5521zPw"
#: as long as a signed token is
TOKEN = "eyJ" + "".join(random.Random(4).choices(string.ascii_letters + string.digits + "-_", k=797))
#: each yields a text in which somebody who knows the encoding can read the secret
ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": lambda s: s,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 behind 1": lambda s: base64.b64encode(b"u" + s.encode() + b"tail").decode(),
    "base64 behind 2": lambda s: base64.b64encode(b"u:" + s.encode() + b"tail").decode(),
    "base64url": lambda s: base64.urlsafe_b64encode(b"abc" + s.encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "percent": lambda s: quote(s, safe=""),
    "percent, slashes kept": quote,
    "form": quote_plus,
    "JSON": json.dumps,
    "JSON in JSON": lambda s: json.dumps(json.dumps(s)),
    "JSON, not ASCII": lambda s: json.dumps(s, ensure_ascii=False),
    "repr": repr,
    "HTML": html.escape,
    "reversed": lambda s: s[::-1],
    "UTF-16 as text": "\0".join,
    "UTF-16 in base64": lambda s: base64.b64encode(s.encode("utf-16-le")).decode(),
}


@pytest.mark.parametrize("secret", [SECRET, PLAIN], ids=["odd", "plain"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_is_found_in_every_encoding(encoding: str, secret: str) -> None:
    redactor = Redactor([secret])
    encoded = ENCODINGS[encoding](secret)
    cleaned, found = redactor.clean({"a": [f"before {encoded} after"]})
    assert found
    assert MASK in cleaned["a"][0]
    assert cleaned["a"][0].startswith("before ")
    assert cleaned["a"][0].endswith(" after")
    assert encoded not in cleaned["a"][0]


def test_what_holds_no_secret_comes_back_itself() -> None:
    redactor = Redactor([PLAIN])
    value = {"rows": [{"id": 1, "text": "nothing here"}], "n": 1.5, "none": None}
    cleaned, found = redactor.clean(value)
    assert cleaned is value
    assert not found


def test_keys_of_maps_and_numbers_are_looked_at_too() -> None:
    redactor = Redactor([PLAIN, "123456"])
    assert redactor.clean({PLAIN: {"pin": 123456, "other": 1234567}}) == (
        {MASK: {"pin": MASK, "other": 1234567}},
        True,
    )


def test_values_under_four_characters_are_not_looked_for_in_other_text() -> None:
    redactor = Redactor(["abc", ""])
    assert redactor.clean({"a": ["abcd", "an abc", ""], "abc": 1}) == ({"a": ["abcd", "an abc", ""], MASK: 1}, True)
    assert redactor.clean(["xabcx"]) == (["xabcx"], False)
    assert redactor.lines().feed("an abc") == "an abc"


def test_a_secret_of_several_lines_is_found_line_by_line() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----"
    said = Redactor([key]).text("line 2 is | kqhkiG9w0BAQEF | -----END PRIVATE KEY-----")
    assert said == f"line 2 is | {MASK} | -----END PRIVATE KEY-----"


def test_a_text_that_was_cut_within_a_secret_keeps_no_part_of_it() -> None:
    redactor = Redactor([PLAIN])
    assert redactor.text(f"body: {PLAIN[:11]}…") == f"body: {MASK}…"
    assert redactor.text(f"body: {PLAIN[:11]}") == f"body: {MASK}"
    assert redactor.text(f"{PLAIN[5:]} is what was left") == f"{MASK} is what was left"


def test_a_longer_secret_goes_before_a_shorter_one_within_it() -> None:
    assert Redactor(["hunter2", "user:hunter2:more"]).text("is user:hunter2:more") == f"is {MASK}"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_secret_across_pieces_is_found_however_they_are_cut(size: int) -> None:
    redactor = Redactor([PLAIN, SECRET])
    text = f"first k7J k7Jx {PLAIN} and {SECRET}\n{PLAIN.encode().hex()} k7Jx93"
    stream = redactor.lines()
    pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(pieces) + stream.finish() == f"first k7J k7Jx {MASK} and {MASK}\n{MASK} k7Jx93"
    assert stream.found


def test_a_piece_is_held_back_only_while_it_may_begin_a_secret() -> None:
    stream = Redactor([PLAIN]).lines()
    assert stream.feed("progress 10%\n") == "progress 10%\n"
    assert stream.feed("token: k7Jx93") == "token: "
    assert stream.feed("and no more") == "k7Jx93and no more"


@pytest.mark.parametrize("columns", [64, 76])
@pytest.mark.parametrize("size", [None, 7, 77, 5000])
def test_a_long_token_in_wrapped_base64_is_found_wherever_its_lines_break(columns: int, size: int | None) -> None:
    redactor = Redactor([TOKEN])
    for before in range(0, 60, 7 if size else 1):
        encoded = base64.b64encode(b"x" * before + TOKEN.encode()).decode()
        text = "\n".join(encoded[at : at + columns] for at in range(0, len(encoded), columns))
        if size is None:
            cleaned = redactor.clean([text])[0][0]
        else:
            stream = redactor.lines()
            cleaned = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.finish()
        assert MASK in cleaned
        assert len(cleaned) < before * 4 / 3 + 30, before


def test_a_long_token_that_somebody_wrapped_is_found_as_it_is_and_in_hex() -> None:
    redactor = Redactor([TOKEN])
    wrapped = "\n    ".join(TOKEN[at : at + 76] for at in range(0, len(TOKEN), 76))
    assert redactor.text(f"key: |\n    {wrapped}\nnext: 1") == f"key: |\n    {MASK}\nnext: 1"
    digits = TOKEN.encode().hex()
    assert redactor.text("\r\n".join(digits[at : at + 60] for at in range(0, len(digits), 60))) == MASK
    said = json.dumps(base64.encodebytes(TOKEN.encode()).decode())
    assert redactor.text(said).startswith(f'"{MASK}')


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (f"not {TOKEN[:60]!r} but a map", f"not '{MASK}' but a map"),
        (f"'{TOKEN[:150]} … {TOKEN[-140:]}' is not of type 'integer'", f"'{MASK} … {MASK}' is not of type 'integer'"),
        (f"is not JSON: X <X {TOKEN[:70]}…, at 3", f"is not JSON: X <X {MASK}…, at 3"),
        (f"said {base64.b64encode(TOKEN.encode()).decode()[:40]}... and more", f"said {MASK}... and more"),
        (f"the tail is …{TOKEN[-20:]} of it", f"the tail is …{MASK} of it"),
        (f"`{TOKEN[:12]}`, `other`", f"`{MASK}`, `other`"),
    ],
)
def test_what_a_message_quotes_and_cuts_of_a_secret_is_taken_out_of_its_middle(said: str, left: str) -> None:
    assert Redactor([TOKEN]).text(said) == left
    assert Redactor([TOKEN]).clean({"message": said})[0] == {"message": left}


def test_what_an_address_begins_and_ends_with_is_no_secret_by_itself() -> None:
    redactor = Redactor(["postgresql://etl:s3cret-pw@warehouse:5432/analytics", "s3cret-pw"])
    said = {"database": "analytics", "kind": "postgresql", "why": 'no database "analytics" at warehouse:5432'}
    assert redactor.clean(said) == (said, False)
    assert redactor.text("postgresql://etl:s3cret-pw@ware…") == f"{MASK}…"


ADDRESS = "postgresql://postgres:V3ry-S3cret-Pw@127.0.0.1:5432/postgres"
PASSWORD = "V3ry-S3cret-Pw"


@pytest.mark.parametrize(
    "said",
    [
        'role "postgres" is missing',
        "kind `postgres`, scheme 'postgresql', 'postgresql://postgres:'",
        "it is at …1:5432/postgres",
        "see postgresql://postgres:…, or postgresql://...",
        f"{base64.b64encode(b'postgresql://').decode()[:16]}…",
        "cut …sergtsop",
    ],
)
def test_what_is_open_of_an_address_is_left_wherever_it_is_quoted_or_cut_off(said: str) -> None:
    redactor = Redactor([ADDRESS, PASSWORD])
    assert redactor.clean({"driver": "postgres", "why": said}) == ({"driver": "postgres", "why": said}, False)


SETTINGS = f"host=db.example.org password={PASSWORD} dbname=analytics"


@pytest.mark.parametrize("said", ["dbname=analytics", "look at host=db.example.org", 'in "host=db.exa"'])
def test_what_is_open_of_settings_is_left_as_well(said: str) -> None:
    redactor = Redactor([SETTINGS, PASSWORD])
    assert redactor.text(said) == said
    assert redactor.text(f"<{SETTINGS}>") == f"<{MASK}>"


@pytest.mark.parametrize("address", [ADDRESS, SETTINGS], ids=["address", "settings"])
@pytest.mark.parametrize("by_itself", [True, False], ids=["with the password", "alone"])
@pytest.mark.parametrize("size", range(1, len(PASSWORD) + 1))
def test_an_address_that_is_cut_off_within_its_password_is_found_in_every_spelling(
    address: str, size: int, by_itself: bool
) -> None:
    redactor = Redactor([address, PASSWORD] if by_itself else [address])
    begin = address.index(PASSWORD)
    head, tail = address[: begin + size], address[begin + len(PASSWORD) - size :]
    for left in (head, json.dumps(head)[1:-1], quote(head, safe=""), head.encode().hex()):
        assert redactor.text(f"it was '{left}'") == f"it was '{MASK}'"
        assert redactor.text(f"it was {left}… so") == f"it was {MASK}… so"
    for left in (tail, quote(tail, safe=""), tail.encode().hex()):
        assert redactor.text(f"it was …{left}, so") == f"it was …{MASK}, so"
    assert redactor.text(f"'{tail[::-1]}'") == f"'{MASK}'"


@pytest.mark.parametrize("begins", ["", "x", "xy"])
def test_base64_of_an_address_shows_nothing_of_its_password_wherever_it_was_cut_off(begins: str) -> None:
    redactor = Redactor([ADDRESS, PASSWORD])
    encoded = base64.b64encode((begins + ADDRESS).encode()).decode()
    known = len(begins + ADDRESS[: ADDRESS.index(PASSWORD)])
    for size in range((known * 4 + 2) // 3 + 1, len(encoded)):
        assert MASK in redactor.text(f"it was {encoded[:size]}…"), size


SERVICE_ACCOUNT = json.dumps(
    {
        "type": "service_account",
        "project_id": "p",
        "private_key": "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 20,
        "token_uri": "https://oauth2.googleapis.com/token",
    }
)
GITHUB = "ghp_AbCdEfGhIjKlMnOpQrStUvWx0123456789"


@pytest.mark.parametrize("mark", ["…", "...", "'"])
@pytest.mark.parametrize(
    ("secret", "size"),
    [
        (f"https://{GITHUB}@github.com/org/repo.git", 30),
        (f"https://{GITHUB}:@github.com/org/repo.git", 30),
        (f"https://{GITHUB}:x-oauth-basic@github.com/org/repo.git", 30),
        (f"https://{GITHUB}@github.com/org/repo.git\n", 30),
        ("nats://ab/S3cr3tT0ken@nats.example.com:4222", 16),
        ("nats://S3cr3tT0ken@nats.example.com:4222", 14),
        ("https://s3cret-host.example.com/", 20),
        (SERVICE_ACCOUNT, 300),
        ("Bearer abcDEF123456ghiJKL https://x", 20),
        ("host=h token=S3cr3tT0ken password=Tr0ub4dor", 20),
        ("host=h S3cr3tT0ken password=Tr0ub4dor", 15),
    ],
)
def test_a_secret_that_is_or_only_holds_an_address_shows_no_token_where_it_was_cut_off(
    secret: str, size: int, mark: str
) -> None:
    assert Redactor([secret]).text(f"it said {secret[:size]}{mark}") == f"it said {MASK}{mark}"


#: secrets with dots of their own, and what of them nobody may see
DOTTED = [
    (f"https://x:{GITHUB}@github.com/o/r.git", GITHUB),
    ("postgresql://etl:V3ry.S3cret..Pw@db.example.com:5432/shop", "V3ry.S3cret..Pw"),
    ("eyJhbGciOi.eyJzdWIiOiIx...SflKxwRJSM", "eyJhbGciOi.eyJzdWIiOiIx...SflKxwRJSM"),
]


@pytest.mark.parametrize("mark", ["…", "...", " ...", "[...]"])
@pytest.mark.parametrize(("secret", "hidden"), DOTTED)
def test_a_secret_that_is_cut_off_at_a_dot_of_its_own_is_found(secret: str, hidden: str, mark: str) -> None:
    redactor = Redactor([secret])
    enough = max(8, secret.index(hidden) + 1)
    for size in range(enough, len(secret)):
        head = f"it said {secret[:size]}{mark} so"
        assert redactor.text(head) == f"it said {MASK}{mark} so", size
        assert redactor.clean({"why": [head]})[0] == {"why": [redactor.text(head)]}
    for size in range(max(8, len(secret) - secret.index(hidden) - len(hidden) + 1), len(secret)):
        tail = f"it said {mark}{secret[-size:]} so"
        assert redactor.text(tail) == f"it said {mark}{MASK} so", size


def test_dots_behind_what_is_too_little_of_a_secret_make_it_no_more() -> None:
    redactor = Redactor(["abcdefg.hijklmnop"])
    assert redactor.text("say abcdefg... and ...jklmnop") == "say abcdefg... and ...jklmnop"
    assert redactor.text("say abcdefg.h... so") == f"say {MASK}... so"
    assert redactor.text("say abcdefg.. so") == "say abcdefg.. so"


@pytest.mark.parametrize(
    ("secret", "size"),
    [
        ("host=db user=etl password=Tr0ub4dor&3 dbname=x", 36),
        ("host=db user=etl password=a://Tr0ub4dor dbname=x", 36),
        ("Bearer abcDEF123456ghiJKL https://x", 20),
        (SERVICE_ACCOUNT, 300),
    ],
)
def test_what_is_no_address_as_a_whole_is_found_at_the_end_of_a_text_without_a_mark(secret: str, size: int) -> None:
    assert Redactor([secret]).text(f"it said {secret[:size]}") == f"it said {MASK}"


@pytest.mark.parametrize(
    "secret",
    [
        "postgresql://postgres:PassW0rd-1@host/db",
        "postgresql://postgres@host/db?password=PassW0rd-1",
        "postgresql://postgres:PassW0rd-1@host/db\n",
        "postgresql://postgres:a://PassW0rd-1@host/postgres",
    ],
)
def test_the_scheme_of_an_address_is_no_secret_in_quotes_or_alone(secret: str) -> None:
    redactor = Redactor([secret])
    for said in ("\"postgres\" 'postgresql' `postgresql`", "postgresql", "a postgres"):
        assert redactor.text(said) == said


def test_an_address_whose_secret_is_its_path_is_found_by_that_and_not_by_its_host() -> None:
    redactor = Redactor(["https://hooks.example.com/services/T0/B0/XyzXyzXyz"])
    assert redactor.text("'https://' 'https://hooks.example.com'") == "'https://' 'https://hooks.example.com'"
    assert redactor.text("'https://hooks.example.com/services/T0'") == f"'{MASK}'"
    assert redactor.text("…/B0/XyzXyzXyz") == f"…{MASK}"


@pytest.mark.parametrize(
    ("secret", "written"),
    [
        ("a&b<c>d'e", "a\\u0026b\\u003cc\\u003ed'e"),
        ("a&b<c>d'e", "a\\u0026b\\u003cc\\u003ed\\u0027e"),
        ("pässwört", "p\\u00E4ssw\\u00F6rt"),
        ("to+k/en==", "to\\u002Bk/en=="),
        (r"first\tsecond\\c\0101d\7", "first\tsecond\\cAd\a"),
        ('say "ho\'ho" & so', "say &#34;ho&#39;ho&#34; &amp; so"),
        ('say "ho\'ho" & so', "say &quot;ho&#39;ho&quot; &amp; so"),
    ],
    ids=["Go", "Jinja", "Java", ".NET", "echo", "HTML of Go and Jinja", "HTML of Django"],
)
def test_what_other_languages_escape_is_found_as_well(secret: str, written: str) -> None:
    assert Redactor([secret]).text(f"<{written}>") == f"<{MASK}>"


@pytest.mark.parametrize("at", range(1, 34))
def test_a_secret_that_begins_as_another_one_does_is_found_whole_at_every_border(at: int) -> None:
    redactor = Redactor(["team-4711-key", "team-4711-key.V3ryS3cretTail", "Tail-of-4711"])
    text = "x team-4711-key.V3ryS3cretTail-of-4711 team-4711-key"
    stream = redactor.lines()
    assert stream.feed(text[:at]) + stream.feed(text[at:]) + stream.finish() == f"x {MASK} {MASK}"


def test_different_keys_stay_different_and_no_entry_is_lost() -> None:
    redactor = Redactor(["first-secret", "second-secret"])
    cleaned, _ = redactor.clean([{"first-secret": 1, "second-secret": 2, "other": 3}, {"second-secret": 4}])
    assert cleaned == [{MASK: 1, "[redacted 2]": 2, "other": 3}, {"[redacted 2]": 4}]


def test_numbers_can_be_left_alone_where_they_only_count() -> None:
    redactor = Redactor(["600000"])
    assert redactor.clean({"rows": 600000, "at": "600000"}, numbers=False) == ({"rows": 600000, "at": MASK}, True)


def test_a_secret_that_was_forgotten_is_shown_and_the_others_are_not() -> None:
    redactor = Redactor(["token-number-one", "token-number-two"])
    redactor.forget("token-number-one")
    redactor.forget("never-known")
    assert redactor.text("token-number-one token-number-two") == f"token-number-one {MASK}"


def test_random_secrets_at_random_places_in_random_data_are_never_left() -> None:
    chance = random.Random(7)
    letters = string.ascii_letters + string.digits + "-_/+='\"\\ é"
    for _ in range(200):
        secret = "".join(chance.choices(letters, k=chance.randint(6, 40)))
        encoding = chance.choice(list(ENCODINGS.values()))
        around = "".join(chance.choices(letters, k=20))
        cleaned, found = Redactor([secret]).clean([around, {around: [around + encoding(secret) + around]}])
        assert found
        assert secret not in json.dumps(cleaned, ensure_ascii=False)
