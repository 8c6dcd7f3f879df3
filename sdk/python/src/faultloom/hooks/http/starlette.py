"""Starlette and FastAPI on the serving side: ``Starlette.__call__`` serves through ``asgi``.

Neither keeps the path of the route that it has found, with those of the mounts above it. So the routes are matched
again, only for traced requests.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from ...wire.names import template_name
from ..patching import Patch
from .asgi import raw_path, serve

_PARAMETER = re.compile(r"{([^{}:]+)(?::([^{}]+))?}")


def patch(patch: Patch, module: Any) -> None:
    """``module``: starlette.applications."""
    starlette = module.Starlette
    call = starlette.__call__

    async def traced_call(self: Any, scope: Any, receive: Any, send: Any) -> None:
        def app(scope: Any, receive: Any, send: Any) -> Any:
            return call(self, scope, receive, send)

        await serve(app, scope, receive, send, lambda arrived: route_of(self, arrived))

    patch.replace(starlette, "__call__", traced_call)


def route_of(app: Any, scope: Mapping[str, Any]) -> str:
    """``METHOD /template`` of the request, or "" if no route names it."""
    path, root = raw_path(scope), scope.get("root_path", "").rstrip("/")
    found = find_template(app.routes, scope)
    if not found:
        return ""
    prefix = root if root and path.startswith(root + "/") else ""
    return template_name(scope["method"], path, prefix + plain(found))


def find_template(routes: Iterable[Any], scope: Mapping[str, Any]) -> str:
    """The path of the first route that matches, after those of the mounts that it is in. "" if none does."""
    for route in routes:
        match, child = route.matches(scope)
        if match.name != "FULL":
            continue
        path = getattr(route, "path", "")
        if hasattr(route, "effective_candidates"):  # FastAPI's included router, which adds prefixes only when it matches
            _, child, route, context = route._match(scope)
            if context is None:
                return find_template([route], {**scope, **child})
            path = getattr(context.starlette_route, "path", context.path)
        inner = getattr(route, "routes", None)
        if inner is None:
            return str(path)
        below = find_template(inner, {**scope, **child})
        return path + below if below else ""
    return ""


def plain(path: str) -> str:
    """``/cart/{id:int}/{rest:path}`` as ``/cart/{id}/{*rest}``."""
    return _PARAMETER.sub(lambda found: f"{{{'*' if found[2] == 'path' else ''}{found[1]}}}", path)
