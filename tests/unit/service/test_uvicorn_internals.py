"""What the service relies on inside uvicorn, which promises none of it: an upgrade that changes it fails here, by name.

The names are read from the source of `service/http/connection.py`, so a new one is checked without being listed.
"""

import ast
import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from coldstream.service.http import connection, server

SIGNATURES = {
    "__init__": "(config, server_state, app_state, _loop=)",
    "connection_made": "(transport)",
    "connection_lost": "(exc)",
    "data_received": "(data)",
    "on_headers_complete": "()",
    "on_body": "(body)",
    "on_message_complete": "()",
    "send_400_response": "(msg)",
    "on_response_complete": "()",
    "shutdown": "()",
}
"""The methods of uvicorn's protocol that ours extends or calls."""

NOT_OURS = {"loop", "connections", "transport", "parser", "headers", "url", "cycle", "pipeline", "flow", "scope"}
"""The attributes of uvicorn's protocol that ours reads or writes; a test finds them in the source, too."""


def advice(what: str) -> str:
    return (
        f"uvicorn {uvicorn.__version__}: {what}; adapt service/http/connection.py or service/http/server.py before upgrading"
    )


def signature_of(function: Any) -> str:
    parameters = [p for name, p in inspect.signature(function).parameters.items() if name != "self"]
    return f"({', '.join(p.name + ('=' if p.default is not p.empty else '') for p in parameters)})"


def used(module: Any, *owners: str) -> set[str]:
    """The attributes of an expression that a module uses: `self`, `self.cycle`, `cycle`, …"""
    tree = ast.parse(inspect.getsource(module))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) in owners}


def own(cls: type) -> set[str]:
    """The names that a class defines itself, in its body or with `self.name = …`."""
    tree = ast.parse(inspect.getsource(cls))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return {name for name in names if name.startswith("_")} | set(vars(cls))


class Transport(asyncio.Transport):
    """A socket that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closing = b"", False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Steps(HttpToolsProtocol):
    """uvicorn's own protocol, which notes in which order its methods are called."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.called = list[str]()

    def on_headers_complete(self) -> None:
        self.called.append("headers")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.called.append("body")
        if body == b"bad":
            raise connection.Refused("bad")
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.called.append("message")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.called.append("response")
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self.called.append("400")


async def _app(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


HEAD = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n"


async def _met(*parts: bytes) -> Steps:
    """A protocol that was connected and got some parts."""
    config = uvicorn.Config(_app, lifespan="off", ws="none", log_config=None, access_log=False)
    protocol = Steps(config, ServerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(Transport())
    for part in parts:
        protocol.data_received(part)
    for _ in range(20):  # turns of the loop, in which the application answers
        await asyncio.sleep(0)
    return protocol


def met(*parts: bytes) -> Steps:
    return asyncio.run(_met(*parts))


def overridden() -> Iterator[str]:
    """Methods of uvicorn's that ours extends."""
    yield from (
        name for name in vars(connection.Connection) if name in vars(HttpToolsProtocol) and not name.startswith("__")
    )


def test_the_list_of_signatures_is_complete() -> None:
    assert {*overridden(), "__init__"} == set(SIGNATURES)
    assert used(connection, "super()") <= set(SIGNATURES)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_method_that_is_extended_has_its_signature(name: str) -> None:
    method = vars(HttpToolsProtocol).get(name)
    assert method is not None, advice(f"HttpToolsProtocol.{name} is gone")
    assert signature_of(method) == SIGNATURES[name], advice(f"HttpToolsProtocol.{name} has another signature")


def test_the_attributes_that_are_used_are_there() -> None:
    protocol = met(HEAD + b"abc")
    wanted = used(connection.Connection, "self") - own(connection.Connection) - set(SIGNATURES)
    assert wanted <= NOT_OURS, "add it to NOT_OURS"
    for what, thing, names in (
        ("HttpToolsProtocol", protocol, wanted),
        ("HttpToolsProtocol.cycle", protocol.cycle, used(connection, "cycle", "self.cycle")),
        ("HttpToolsProtocol.flow", protocol.flow, used(connection, "flow", "self.flow")),
        ("HttpToolsProtocol.parser", protocol.parser, used(connection, "self.parser")),
        ("HttpToolsProtocol.pipeline", protocol.pipeline, used(connection, "self.pipeline")),
        ("RequestResponseCycle.message_event", protocol.cycle.message_event, used(connection, "cycle.message_event")),
    ):
        assert names, what
        lost = sorted(name for name in names if not hasattr(thing, name))
        assert not lost, advice(f"{what} has no {', '.join(lost)} any more")
    assert isinstance(protocol.cycle, RequestResponseCycle), advice("the cycle of a request is of another class")
    assert {type(getattr(protocol.cycle, name)) for name in ("response_complete", "response_started", "more_body")} == {bool}
    assert "method" in protocol.scope, advice("the scope of a request has no method")
    assert met().scope is None, advice("there is a scope before the first request")


def test_a_request_goes_through_the_methods_in_this_order() -> None:
    assert met(HEAD, b"a", b"bc").called == ["headers", "body", "body", "message", "response"], advice("another order")
    assert met(HEAD).cycle.more_body
    assert not met(HEAD + b"abc").cycle.more_body


def test_what_a_method_raises_ends_the_parsing_with_the_refusal() -> None:
    called = met(HEAD + b"bad").called
    assert called[:3] == ["headers", "body", "400"], advice("an error in on_body does not lead to send_400_response")


def test_the_server_has_what_is_used_of_it() -> None:
    served = uvicorn.Server(uvicorn.Config(_app))
    assert isinstance(served.server_state.connections, set), advice("Server.server_state.connections is no set")
    assert served.should_exit is False, advice("Server.should_exit is gone")
    assert signature_of(uvicorn.Server.handle_exit) == "(sig, frame)", advice("Server.handle_exit has another signature")
    assert signature_of(uvicorn.Server.capture_signals) == "()", advice("Server.capture_signals has another signature")
    assert signature_of(uvicorn.Server.serve) == "(sockets=)", advice("Server.serve has another signature")
    assert "capture_signals" in vars(server._Server)
    assert "self.capture_signals()" in inspect.getsource(uvicorn.Server.serve), advice(
        "Server.serve takes signals otherwise"
    )
