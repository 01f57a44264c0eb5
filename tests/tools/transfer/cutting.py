"""A way to a server that can be cut: behind a COMMIT that the server got and whose answer nobody hears, or for good."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Wire:
    """What stands between a client and a server on loopback."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        #: commits still to pass before one is cut off; None: all pass
        self.commits: int | None = None
        #: nobody gets through any more
        self.dead = False
        #: whether that is so behind the cut
        self.dies = False
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.dead:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._port))
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if b"COMMIT\0" in data and self.commits is not None:
                    self.commits -= 1
                    if self.commits < 0:
                        self._cut(client, server, data)
                        return
                server.sendall(data)
        self._close(client, server)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        """The server commits; the client sees nothing but a closed connection."""
        self.commits, self.cuts = None, self.cuts + 1
        self.dead = self.dies
        self._close(client)
        server.sendall(data)
        server.shutdown(socket.SHUT_WR)  # what was sent is read and done before the end is seen
        with contextlib.suppress(OSError):
            while server.recv(65536):
                pass
        server.close()

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
        self._close(client)

    def _close(self, *ends: socket.socket) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def wire(port: int) -> Iterator[Wire]:
    made = Wire(port)
    try:
        yield made
    finally:
        made.close()
