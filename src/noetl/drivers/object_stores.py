"""Buckets of object stores: S3 and what speaks its language, Google Cloud Storage, Azure; with obstore, an optional part.

What goes wrong is told with the address and the keychain entry that was used, never with what stands in it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from noetl.errors import NoetlError

T = TypeVar("T")

MISSING = "object stores need obstore, which comes with: pip install 'noetl[s3]'"
SCHEMES = ("s3", "gs", "az")
#: what is larger is sent in parts, some at a time: that is what an upload holds in memory
_PART = 8 << 20
_AT_ONCE = 4
#: services take 10,000 parts
_MOST_PARTS = 9_000
_BLOCK = 8 << 20
#: a service that does not answer, or answers that it cannot now, is asked again for so many seconds
PATIENCE_S = 30.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_CLIENT = {"connect_timeout": "5s", "read_timeout": "60s", "timeout": "900s"}
_QUICK: dict[str, Any] = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}

_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
#: of a request that nobody answered: whom it was sent to, and why, which obstore tells in the last of its many lines
_ASKED = re.compile(r"performing \w+ (\w+://[^/\s?@]+)(?=[/\s?])")
_REASON = re.compile(r'(?:message|error): "([^"]+)"')
#: what services call it when a token is too old
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"})
_DENIED = {
    "SignatureDoesNotMatch": "the secret key is not the one that belongs to the access key",
    "InvalidAccessKeyId": "the service does not know the access key",
    "InvalidToken": "the session token is not valid",
    "AccessDenied": "the access key may not do that",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    **dict.fromkeys(_EXPIRED, "the token has expired; it has to be renewed"),
}
#: answers that another attempt may change: also an upload that the service has forgotten
_PASSING = frozenset({"NoSuchUpload", "SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout"})


class BucketFailed(NoetlError):
    """An object store refused, or did not answer."""

    def __init__(self, message: str, *, kind: str = "fail", retryable: bool = False) -> None:
        super().__init__(message)
        #: the kind of failure that a task shows
        self.kind = kind
        self.retryable = retryable


class NoObject(BucketFailed):
    """There is no object of that name."""


class ObjectInfo(NamedTuple):
    """An object that is there."""

    key: str
    size: int
    etag: str
    #: when it was put there
    since: float


class ObjectAddress(NamedTuple):
    """Where an object lies."""

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"


def address_of(text: str, bucket: str | None = None) -> ObjectAddress:
    """`s3://bucket/key`, or a key alone in a bucket that is given. BucketFailed: it is neither."""
    scheme, found, rest = text.partition("://")
    if found and scheme in SCHEMES:
        named, _, key = rest.partition("/")
        if bucket not in (None, "", named):
            raise BucketFailed(f"`{text}` names another bucket than `bucket: {bucket}`", kind="type")
        return ObjectAddress(scheme, named, _key(key, text))
    if found:
        raise BucketFailed(f"`{text}` is no address of an object; those begin with s3://, gs:// or az://", kind="type")
    if not bucket:
        said = f"`{text}` says no bucket: give `bucket`, have the keychain entry say it, or write `s3://bucket/{text}`"
        raise BucketFailed(said, kind="type")
    return ObjectAddress("s3", bucket, _key(text, text))


def _key(key: str, whole: str) -> str:
    key = key.strip("/")
    if not key or any(part in ("", ".", "..") for part in key.split("/")) or "\0" in key:
        raise BucketFailed(f"`{whole}` is no name of an object: its parts must not be empty, `.` or `..`", kind="type")
    return key


class Bucket:
    """One bucket, with one credential."""

    def __init__(self, scheme: str, name: str, credential: Mapping[str, Any] | None = None, entry: str = "") -> None:
        self.scheme, self.name = scheme, name
        #: the keychain entry that the credential comes from; empty: from the environment
        self.entry = entry
        self._store = _open_store(scheme, name, credential or {})

    def __str__(self) -> str:
        return f"{self.scheme}://{self.name}"

    def put(self, key: str, file: Path) -> None:
        """Make an object of a file. It is there as a whole, and durable, when this returns, or not at all."""
        part = max(_PART, file.stat().st_size // _MOST_PARTS)
        self._retry(key, lambda: self._store.put(key, file, chunk_size=part, max_concurrency=_AT_ONCE))

    def get(self, key: str, file: Path) -> ObjectInfo:
        """Write an object to a file."""
        return self._retry(key, lambda: self._download(key, file))

    def _download(self, key: str, file: Path) -> ObjectInfo:
        found = self._store.get(key)
        with file.open("wb") as target:
            for block in found.stream(min_chunk_size=_BLOCK):
                target.write(block)
            size = target.tell()
        if size != found.meta["size"]:
            raise ConnectionError(f"{size:,} bytes came, not {found.meta['size']:,}")
        return _object_info(found.meta)

    def head(self, key: str) -> ObjectInfo:
        """What is there under a name. NoObject: nothing is."""
        try:
            return self._retry(key, lambda: _object_info(self._store.head(key)))
        except BucketFailed as error:
            if not error.retryable:  # such an answer has no words: another question brings them
                next(self.list_entries(key), None)
            raise

    def list_entries(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects below a prefix."""
        pages = iter(self._store.list(prefix or None))
        while (page := self._retry(prefix, lambda: next(pages, None))) is not None:
            yield from map(_object_info, page)

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no matter."""
        self._retry(key, lambda: self._store.delete(key))

    def _retry(self, key: str, action: Callable[[], T]) -> T:
        """Do it, again and again while that may help."""
        until, wait = time.monotonic() + PATIENCE_S, _FIRST_WAIT_S
        while True:
            try:
                return action()
            except Exception as error:
                told = self._translate_error(error, key)
                if told is None:
                    raise
                if not told.retryable or time.monotonic() + wait > until:
                    raise told from None
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _translate_error(self, error: Exception, key: str) -> BucketFailed | None:
        """What a service answered, in words; None: it was not the service."""
        from obstore.exceptions import BaseError

        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
            return None  # of this machine: a disk that is full
        if not isinstance(error, (BaseError, FileNotFoundError, ConnectionError)):
            return None
        said = str(error)
        code, status = _first_group(_CODE, said), _first_group(_STATUS, said)
        if code in _DENIED or status in ("401", "403"):
            return self._access_failure(code or status)
        if code in ("NoSuchBucket", "ContainerNotFound") or "bucket does not exist" in said:
            return BucketFailed(f"the bucket {self} does not exist{self._entry_note()}")
        if status == "404" and code not in _PASSING:
            return self._explain_missing(key)
        # Whatever has no status has not been answered.
        passing = code in _PASSING or status is None or status[0] == "5" or status in ("408", "429")
        what = f"it answers {code or status}" if code or status else _describe_no_answer(said)
        kind = "http-transport" if passing else "fail"
        return BucketFailed(f"{self}/{key}{self._entry_note()}: {what}", kind=kind, retryable=passing)

    def _explain_missing(self, key: str) -> BucketFailed:
        return NoObject(f"there is no object {self}/{key}{self._entry_note()}")

    def _access_failure(self, code: str | None) -> BucketFailed:
        why = _DENIED.get(code or "", f"the service refuses it ({code})")
        whose = f"the keychain entry `{self.entry}`" if self.entry else "the credential in the environment"
        return BucketFailed(f"{self}: {whose} does not open it: {why}", kind="credential")

    def _entry_note(self) -> str:
        return f" (keychain entry `{self.entry}`)" if self.entry else ""


def _first_group(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _describe_no_answer(said: str) -> str:
    """What became of a request without an answer."""
    first = said.splitlines()[0].partition(" - ")
    reasons = _REASON.findall(said)
    asked = _first_group(_ASKED, first[0])
    return f"{asked} does not answer: {reasons[-1]}" if asked and reasons else first[2] or first[0]


def _object_info(meta: Mapping[str, Any]) -> ObjectInfo:
    # One and the same service writes it with quotes here and without them there.
    etag = str(meta["e_tag"] or "").strip('"')
    return ObjectInfo(meta["path"], meta["size"], etag, meta["last_modified"].timestamp())


# --- opening -----------------------------------------------------------------------------------------------------------


def _open_store(scheme: str, name: str, credential: Mapping[str, Any]) -> Any:
    try:
        from obstore import store
    except ImportError:
        raise BucketFailed(MISSING) from None
    options: dict[str, Any] = {"client_options": {**_CLIENT, "allow_http": True}, "retry_config": _QUICK}
    given: Any = {key: value for key, value in credential.items() if value not in (None, "") and key not in _OWN_KEYS}
    try:
        if scheme == "s3":
            return store.S3Store(name, **options, **_for_s3(given))
        if scheme == "gs":
            return store.GCSStore(name, **options, config=given)
        return store.AzureStore(name, **options, config=_for_azure(given))
    except Exception as error:  # noqa: BLE001  obstore checks what it is given, each service in its own way
        said = str(error).splitlines()[0]
        raise BucketFailed(f"{scheme}://{name} cannot be opened: {said}", kind="credential") from None


#: parts of an entry that say something to us
_OWN_KEYS = ("kind", "bucket")


def _for_s3(given: dict[str, Any]) -> dict[str, Any]:
    """What an entry says goes before what the environment says, and is not mixed with it."""
    config: dict[str, Any] = {}
    if given.get("access_key_id"):
        keys = {
            "access_key_id": str(given["access_key_id"]),
            "secret_access_key": str(given.get("secret_access_key", "")),
            "token": str(given["session_token"]) if given.get("session_token") else None,
            "expires_at": None,
        }
        config["credential_provider"] = lambda: keys
    if given.get("endpoint"):
        config["aws_endpoint_url_s3"] = config["endpoint"] = str(given["endpoint"])
    if given.get("region") or given.get("endpoint"):
        config["region"] = str(given.get("region") or "us-east-1")
    return config


def _for_azure(given: dict[str, Any]) -> Any:
    names = {"account": "account_name", "key": "account_key", "sas": "sas_key"}
    return {names.get(key, key): value for key, value in given.items()}
