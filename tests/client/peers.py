"""Servers that answer as a test says: byte by byte, never, with something else, or over TLS."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: what a server does with a connection whose first request it has read
Serve = Callable[[socket.socket, bytes], None]


def plain(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


OK = plain(b"{}")


class Peer:
    """Answers every request with the next of some answers, the last one again and again; an empty one closes the connection."""

    def __init__(self, *answers: bytes | Serve, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._answers, self._tls = list(answers), tls
        self._turn = 0
        #: the requests that came, and how many connections
        self.requests: list[bytes] = []
        self.connections = 0
        #: the connections that ended
        self.ended: list[socket.socket] = []
        self._open: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._socket.accept()
                self.connections += 1
                self._open.append(line)
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        self._answer(line)
        self.ended.append(line)

    def _answer(self, line: socket.socket) -> None:
        with suppress(OSError), self._tls.wrap_socket(line, server_side=True) if self._tls else line as secure:
            while request := _read_request(secure):
                self.requests.append(request)
                answer = self._answers[min(self._turn, len(self._answers) - 1)]
                self._turn += 1
                if callable(answer):
                    answer(secure, request)
                elif answer:
                    secure.sendall(answer)
                if not answer or (not callable(answer) and b"Connection: close" in answer):
                    return

    def close(self) -> None:
        # Without this the thread that accepts would keep the port.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.drop()

    def drop(self) -> None:
        """Close all connections, as a server that is killed does."""
        for line in self._open:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()
        self._open.clear()


def _read_request(line: socket.socket) -> bytes:
    read = b""
    while b"\r\n\r\n" not in read:
        data = line.recv(65_536)
        if not data:
            return b""
        read += data
    head, _, body = read.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
    while len(body) < length:
        body += line.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def peer(*answers: bytes | Serve, tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Peer]:
    one = Peer(*answers, tls=tls, port=port)
    try:
        yield one
    finally:
        one.close()


@contextmanager
def nobody() -> Iterator[str]:
    """An address at which nothing listens, and that nothing else takes meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def self_signed(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server with a certificate that nobody knows encrypts with, and what a client needs to trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    today = datetime.fromtimestamp(0, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today)
        .not_valid_after(today + timedelta(days=365 * 200))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, private = folder / "server.pem", folder / "server.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    formats = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, *formats))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, private)
    return server, ssl.create_default_context(cafile=str(pem))
