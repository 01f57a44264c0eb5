"""The description of the API (OpenAPI 3.1), made from the table of routes and the types they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from noetl import __version__
from noetl.server.http.routes import JSON, Route

_PLACE = re.compile(r"{(\w+)}")
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def describe_api(routes: Sequence[Route]) -> dict[str, Any]:
    """The document."""
    types = [kind for route in routes for kind in (route.takes, route.gives) if kind is not None and not _is_text(kind)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "NoETL", "version": __version__, "summary": "Durable workflows in plain YAML"},
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _is_text(kind: Any) -> bool:
    return isinstance(kind, str)


def _operation(route: Route, types: dict[str, Any]) -> dict[str, Any]:
    name = f"{route.method.lower()}{re.sub(r'[^a-z]+', '_', route.path.removeprefix('/api').lower())}".rstrip("_")
    places = [
        {"name": place, "in": "path", "required": True, "schema": {"type": "string"}}
        for place in _PLACE.findall(route.path)
    ]
    query = [
        {"name": key, "in": "query", "description": about, "schema": {"type": "string"}}
        for key, about in route.query.items()
    ]
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    told: dict[str, Any] = {
        "operationId": name,
        "summary": route.about,
        "x-permission": route.permission,
        "responses": {
            str(route.status): {"description": "done", **_content(route.gives, types)},
            "default": {"description": "a problem", "content": problem},
        },
    }
    if places or query:
        told["parameters"] = [*places, *query]
    if route.takes is not None:
        told["requestBody"] = {"required": True, **_content(route.takes, types)}
    if route.permission != "open":
        told["security"] = [{"token": []}]
    return told


def _content(kind: Any, types: dict[str, Any]) -> dict[str, Any]:
    if kind is None:
        return {}
    if _is_text(kind):
        return {"content": {kind: {}}}
    return {"content": {JSON: {"schema": types[repr(kind)]}}}
