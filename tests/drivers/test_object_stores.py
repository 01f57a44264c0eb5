"""Buckets: what a service that is slow, broken or strict makes of requests."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from servers import Bucket as Made

from noetl.drivers import object_stores
from noetl.drivers.object_stores import Bucket, BucketFailed, NoObject, ObjectAddress, address_of
from noetl.services.servers import S3Server


def opened(made: Made, **change: Any) -> Bucket:
    return Bucket("s3", made.name, {**made.credential, **change}, "lake")


def test_an_object_comes_back_as_it_was(bucket: Made, tmp_path: Path) -> None:
    file, back = tmp_path / "file", tmp_path / "back"
    for size in (0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 20 << 20):
        file.write_bytes(os.urandom(size))
        opened(bucket).put("a/b", file)
        seen = opened(bucket).get("a/b", back)
        assert seen.size == size
        assert back.read_bytes() == file.read_bytes()
        assert opened(bucket).head("a/b") == seen
    assert [one.key for one in opened(bucket).list_entries("a")] == ["a/b"]
    opened(bucket).delete("a/b")
    opened(bucket).delete("a/b")
    assert list(opened(bucket).list_entries("")) == []


def test_a_thousand_parts_make_one_object(bucket: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "_PART", 5_000)
    file, back = tmp_path / "file", tmp_path / "back"
    file.write_bytes(os.urandom(5_000_000))
    opened(bucket).put("many", file)
    assert opened(bucket).get("many", back).size == 5_000_000
    assert back.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("verb", ["head", "get"])
def test_what_is_not_there_is_told_apart_from_a_bucket_that_is_not(bucket: Made, tmp_path: Path, verb: str) -> None:
    more = [tmp_path / "x"] if verb == "get" else []
    with pytest.raises(NoObject, match="there is no object"):
        getattr(opened(bucket), verb)("nothing", *more)
    nowhere = Bucket("s3", "no-such-bucket", bucket.credential, "lake")
    with pytest.raises(BucketFailed, match=r"s3://no-such-bucket does not exist \(keychain entry `lake`\)"):
        getattr(nowhere, verb)("nothing", *more)


def test_what_an_entry_says_is_not_mixed_with_the_environment(
    bucket: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "of-somebody-else")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    (tmp_path / "f").write_bytes(b"x")
    opened(bucket).put("a", tmp_path / "f")
    assert opened(bucket).head("a").size == 1


@contextmanager
def answering(*answers: tuple[int, str]) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """A service that gives these answers, the last one for ever."""
    left, asked = list(answers), []

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            status, code = left.pop(0) if len(left) > 1 else left[0]
            body = f"<Error><Code>{code}</Code></Error>".encode() if code else b"hello"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"e"')
            self.send_header("Last-Modified", "Sun, 15 Nov 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            self.do_GET()

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        yield {"endpoint": url, "access_key_id": "key", "secret_access_key": "very-secret-indeed"}, asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("answer", [(503, "SlowDown"), (500, "InternalError"), (404, "NoSuchUpload"), (429, "Slow")])
def test_a_service_that_cannot_now_is_asked_again(answer: tuple[int, str], tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    with answering(*[answer] * 4, (200, "")) as (credential, asked):
        Bucket("s3", "b", credential).put("a", tmp_path / "f")
        Bucket("s3", "b", credential).get("a", tmp_path / "g")
    assert asked.count("PUT /b/a") > 2
    assert (tmp_path / "g").read_bytes() == b"hello"


def test_patience_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "PATIENCE_S", 0.5)
    slow = pytest.raises(BucketFailed, match="it answers SlowDown")
    with answering((503, "SlowDown")) as (credential, _), slow as caught:
        Bucket("s3", "b", credential, "lake").get("a", tmp_path / "g")
    assert caught.value.retryable
    with pytest.raises(BucketFailed, match="s3://b/a") as caught:
        Bucket("s3", "b", credential, "lake").get("a", tmp_path / "g")
    assert (caught.value.kind, caught.value.retryable) == ("http-transport", True)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((400, "ExpiredToken"), "the token has expired"),
        ((403, "SignatureDoesNotMatch"), "the secret key is not the one"),
        ((403, "AccessDenied"), "the access key may not do that"),
        ((403, "RequestTimeTooSkewed"), "the clock of this machine is wrong"),
        ((401, "SomethingNew"), r"the service refuses it \(SomethingNew\)"),
    ],
)
def test_a_credential_that_is_refused_is_told_by_its_entry(answer: tuple[int, str], why: str, tmp_path: Path) -> None:
    with answering(answer) as (credential, asked), pytest.raises(BucketFailed, match=why) as caught:
        Bucket("s3", "b", credential, "lake").get("a", tmp_path / "g")
    assert "the keychain entry `lake`" in str(caught.value)
    assert "secret-indeed" not in str(caught.value)
    assert caught.value.kind == "credential"
    assert len(asked) == 1


def test_a_disk_that_is_full_is_no_failure_of_the_service(bucket: Made, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 1000)
    opened(bucket).put("a", tmp_path / "f")
    with pytest.raises(OSError, match="No space left"):
        opened(bucket).get("a", Path("/dev/full"))


@pytest.mark.parametrize(
    ("text", "bucket_", "expected"),
    [
        ("s3://b/k/x", None, ObjectAddress("s3", "b", "k/x")),
        ("gs://b/k", "b", ObjectAddress("gs", "b", "k")),
        ("az://c/k", None, ObjectAddress("az", "c", "k")),
        ("/k/x/", "b", ObjectAddress("s3", "b", "k/x")),
    ],
)
def test_an_address_says_where_an_object_lies(text: str, bucket_: str | None, expected: ObjectAddress) -> None:
    assert address_of(text, bucket_) == expected


@pytest.mark.parametrize("text", ["k", "http://b/k", "s3://b", "s3://b/a//b", "s3://b/../k", "s3://b/./k", "s3://b/\0"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BucketFailed):
        address_of(text)


@pytest.mark.parametrize(("scheme", "said"), [("az", "Account must be specified"), ("gs", "is not valid")])
def test_other_services_say_what_they_lack(scheme: str, said: str) -> None:
    with pytest.raises(BucketFailed, match=said):
        Bucket(scheme, "b", {"kind": "generic", "nonsense": "x"} if scheme == "gs" else {})


def test_without_the_library_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['obstore'] = None\nfrom noetl.drivers.object_stores import Bucket\nBucket('s3', 'b')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'noetl[s3]'" in done.stderr


def test_a_server_that_goes_and_comes_back_gets_the_whole_object(tmp_path: Path) -> None:
    server = S3Server(tmp_path / "s3")
    server.make_bucket("b")
    given = {"access_key_id": server.access_key, "secret_access_key": server.secret_key, "endpoint": server.url}
    file, back = tmp_path / "file", tmp_path / "back"
    file.write_bytes(os.urandom(150 << 20))
    with server:
        going = threading.Timer(0.05, lambda: (server.stop(), time.sleep(1), server.start()))
        going.start()
        Bucket("s3", "b", given).put("large", file)
        going.join()
        going = threading.Timer(0.05, lambda: (server.stop(), time.sleep(1), server.start()))
        going.start()
        Bucket("s3", "b", given).get("large", back)
        going.join()
    assert back.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1 does not answer: Connection refused"),
        ("http://no-such-host.invalid", "http://no-such-host.invalid does not answer: failed to lookup address"),
    ],
)
def test_a_service_that_is_not_there_is_named_with_the_reason(
    endpoint: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(object_stores, "PATIENCE_S", 0.0)
    (tmp_path / "f").write_text("x")
    given = {"access_key_id": "key", "secret_access_key": "very-secret-indeed", "endpoint": endpoint}
    with pytest.raises(BucketFailed) as caught:
        Bucket("s3", "b", given, "lake").put("k", tmp_path / "f")
    assert str(caught.value).startswith(f"s3://b/k (keychain entry `lake`): {why}")
    assert caught.value.retryable
