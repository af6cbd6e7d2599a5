"""What takes the place of the service for its clients: it answers, counts, and may refuse."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any


class Receiver:
    """Learns events, except those of kind `no`, and recommends to every user what is called like them."""

    def __init__(self) -> None:
        self.items, self.ids, self.connections = Counter[str](), set[str](), 0
        self._lock = Lock()

    def count_connection(self) -> None:
        with self._lock:
            self.connections += 1

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/recommend":
            return 200, {"items": [{"item": f"for {body['user']}", "score": 1.0}]}
        if any(one.get("kind") == "no" for one in body):
            return 422, {"detail": "kind must be another", "field": "$[0].kind"}
        with self._lock:
            new = [one for one in body if one["event_id"] not in self.ids]
            self.ids |= {one["event_id"] for one in new}
            self.items.update(one["item"] for one in new)
        return 200, {"learned": len(new), "duplicates": len(body) - len(new), "position": len(self.ids)}


@contextmanager
def received() -> Iterator[tuple[str, Receiver]]:
    """The address of a receiver, and what it has received."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            receiver.count_connection()
            super().setup()

        def do_POST(self) -> None:
            status, answer = receiver.answer(self.path, json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.send_header("content-length", str(len(body := json.dumps(answer).encode())))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """A client that was killed is no error."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", receiver
        finally:
            server.shutdown()
            thread.join()
