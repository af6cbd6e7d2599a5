"""The process of the service: its socket, its signals, and a stop that loses nothing."""

import asyncio
import logging
import math
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import cast

import uvicorn
import uvloop
from starlette.applications import Starlette

from coldstream.errors import InvalidInput
from coldstream.runtime.team import Hiring
from coldstream.service.feed import Feed
from coldstream.service.http.app import application
from coldstream.service.http.connection_limits import connection_limits
from coldstream.service.http.connections import Connections
from coldstream.service.http.gate import Gate
from coldstream.service.http.keys import KeyFile
from coldstream.service.http.logs import log_to_stderr
from coldstream.service.http.rates import Rates
from coldstream.service.http.routes import ROUTES, Route
from coldstream.service.http.tracing import Tracing, tracing_of
from coldstream.service.service import NOBODY_ELSE, Service, requested_model
from coldstream.service.settings import Settings, check_exposure
from coldstream.storage import stores

log = logging.getLogger(__name__)


def serve(
    settings: Settings,
    routes: Sequence[Route] = ROUTES,
    hiring: Hiring = NOBODY_ELSE,
    feed: Feed | None = None,
) -> None:
    """Serve until a signal stops the process; `hiring` makes other learners, and a `feed` brings events.

    Raises the error that kept the service from starting, or ended it.
    """
    check_exposure(settings)
    keys = None if settings.keys is None else KeyFile(settings.keys)
    requested_model(settings)
    connection_limits(settings)
    log_to_stderr(settings.log_level)
    with closing(_bound(settings)) as listener, _traced() as tracing:
        url = _url(settings)
        store, port = stores.shared(url) or stores.opened(url), listener.getsockname()[1]
        service = Service(settings, store, port, hiring, partial(stores.shown, url))
        service.feed = feed
        app = application(service, Gate(keys, Rates(settings.requests_per_second)), routes, tracing)
        uvloop.run(_serve(app, service, listener, keys))
    if service.failure is not None:
        raise service.failure


@contextmanager
def _traced() -> Iterator[Tracing | None]:
    tracing = tracing_of(os.environ)
    try:
        yield tracing
    finally:
        if tracing is not None:
            tracing.close()


async def _serve(app: Starlette, service: Service, listener: socket.socket, keys: KeyFile | None = None) -> None:
    settings = service.settings
    connections = Connections(connection_limits(settings), service.metrics.turned_away)
    config = uvicorn.Config(
        app,
        loop="none",
        http=cast("type[asyncio.Protocol]", connections.connection),  # uvicorn only calls it
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.proxies is not None,
        forwarded_allow_ips=[] if settings.proxies is None else settings.proxies,
        timeout_keep_alive=math.ceil(settings.idle_seconds),
        timeout_graceful_shutdown=max(1, math.ceil(settings.shutdown_seconds)),
    )
    server = _Server(config, service, keys)

    def stop() -> None:
        server.should_exit = True

    host, port = listener.getsockname()[:2]
    log.info("listening", extra={"address": f"http://{f'[{host}]' if ':' in host else host}:{port}"})
    service.metrics.watch(server.server_state.connections)
    service.start(stop)
    sweeping = asyncio.create_task(connections.sweep(server.server_state.connections))
    try:
        await server.serve([listener])
    finally:
        sweeping.cancel()
        await service.stop()
        if service.abandoned:
            log.info("stopped before it was ready")
            logging.shutdown()
            # An orderly exit of the interpreter would wait for all threads, one of which still recovers or compiles.
            os._exit(0)


class _Server(uvicorn.Server):
    """uvicorn's server with signals of its own: it does not raise again the signal that stopped it."""

    def __init__(self, config: uvicorn.Config, service: Service, keys: KeyFile | None) -> None:
        super().__init__(config)
        self._service, self._keys = service, keys
        self._leaving: asyncio.Task[None] | None = None

    def leave(self, number: int) -> None:
        """Hand over, then stop. A second signal does not wait for the handover; a SIGINT after that, not for requests."""
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave(number))
        else:
            self.handle_exit(number, None)

    def reread(self) -> None:
        """Read the file of keys again, if there is one."""
        if self._keys is not None:
            self._keys.reread()

    async def _leave(self, number: int) -> None:
        try:
            await self._service.leave()
        except Exception as error:  # a failed handover must not prevent the stop
            log.error("nothing was handed over", exc_info=error)
        self.handle_exit(number, None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM with `leave`, and SIGHUP with `reread`, while the server runs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.leave, number)
        loop.add_signal_handler(signal.SIGHUP, self.reread)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)


def _bound(settings: Settings) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        message = f"host {settings.host!r}, port {settings.port}: cannot listen there ({error}); choose another"
        raise InvalidInput(message) from error
    return listener


def _url(settings: Settings) -> str:
    return f"sqlite:{settings.data}" if settings.store is None else settings.store
