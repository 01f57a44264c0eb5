"""The API over HTTP. `app.py` puts it together from the routes of the other modules; each route says who may call it."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.server.http.api_tokens import ROLES as ROLES, ApiTokens as ApiTokens
    from noetl.server.http.app import build_app as build_app
    from noetl.server.http.worker_routes import build_worker_routes as build_worker_routes
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "api_tokens": "ApiTokens ROLES",
            "app": "build_app",
            "worker_routes": "build_worker_routes",
        },
    )
