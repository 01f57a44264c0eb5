"""The API over HTTP. `app.py` puts it together from the routes of the other modules; each route says who may call it."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.server.http.access import (
        KnownTokens as KnownTokens,
        TokenFile as TokenFile,
        add_token as add_token,
        is_loopback as is_loopback,
        make_owner_token as make_owner_token,
        new_token as new_token,
        remove_token as remove_token,
    )
    from noetl.server.http.app import AccessSettings as AccessSettings, build_app as build_app
    from noetl.server.http.worker_routes import build_worker_routes as build_worker_routes
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "access": "KnownTokens TokenFile add_token is_loopback make_owner_token new_token remove_token",
            "app": "AccessSettings build_app",
            "worker_routes": "build_worker_routes",
        },
    )
