"""Django on the serving side: ``WSGIHandler`` serves through ``wsgi``, ``ASGIHandler`` through ``asgi``.

The route template is that of the URL pattern that Django has resolved, with the patterns that include it. Django has it
in its request, to which the hooks leave a reference in WSGI's environ or in ASGI's scope.
"""

from __future__ import annotations

import re
import weakref
from typing import Any, Dict, Mapping, Optional

from ...wire.names import template_name
from ..patching import Patch
from . import asgi
from .flask import template as template_of_path
from .wsgi import SERVED_KEY, route_name, traced_application

REQUEST_KEY = "faultloom.django"
_IS_EXPRESSION = re.compile(r"[\^$\\()\[\]+?|]")


def patch(patch: Patch, module: Any) -> None:
    """``module``: django.core.handlers.wsgi."""
    handler = module.WSGIHandler
    get_response = handler.get_response

    def traced_get_response(self: Any, request: Any) -> Any:
        environ = getattr(request, "environ", None)
        if environ and environ.get(SERVED_KEY):
            environ[REQUEST_KEY] = weakref.ref(request)
        return get_response(self, request)

    patch.replace(handler, "__call__", traced_application(handler.__call__, route_of))
    patch.replace(handler, "get_response", traced_get_response)


def patch_asgi(patch: Patch, module: Any) -> None:
    """``module``: django.core.handlers.asgi."""
    handler = module.ASGIHandler
    call, create_request = handler.__call__, handler.create_request

    async def traced_call(self: Any, scope: Any, receive: Any, send: Any) -> None:
        def app(scope: Any, receive: Any, send: Any) -> Any:
            return call(self, scope, receive, send)

        await asgi.serve(app, scope, receive, send, asgi_route_of)

    def traced_create_request(self: Any, scope: Any, body_file: Any) -> Any:
        request, error = create_request(self, scope, body_file)
        if request is not None and asgi.SERVED_KEY in scope:
            scope[asgi.SERVED_KEY][REQUEST_KEY] = weakref.ref(request)
        return request, error

    patch.replace(handler, "__call__", traced_call)
    patch.replace(handler, "create_request", traced_create_request)


def route_of(environ: Dict[str, Any]) -> str:
    """``METHOD /template`` of the request, or "" if no URL pattern names it."""
    found = _resolved_template(environ)
    return "" if found is None else route_name(environ, found)


def asgi_route_of(scope: Mapping[str, Any]) -> str:
    """The same for the scope of ASGI."""
    found = _resolved_template(scope[asgi.SERVED_KEY])
    return "" if found is None else template_name(scope["method"], asgi.raw_path(scope), scope.get("root_path", "").rstrip("/") + found)


def _resolved_template(holder: Mapping[str, Any]) -> Optional[str]:
    reference = holder.get(REQUEST_KEY)
    route = getattr(getattr(reference and reference(), "resolver_match", None), "route", None)
    return None if route is None else template(route)


def template(route: str) -> Optional[str]:
    """``cart/<int:id>/`` or ``^cart/(?P<id>[0-9]+)/$`` as ``/cart/{id}/``. None for other regular expressions."""
    text = _template_of_expression(route) if _IS_EXPRESSION.search(route) else template_of_path(route)
    return None if text is None else "/" + text


def _template_of_expression(text: str) -> Optional[str]:
    """An expression of text, groups and anchors as a template. None if it has anything else."""
    out, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "(":
            end = _end_of_group(text, at)
            named = re.match(r"\(\?P<(\w+)>", text[at:])
            if end is None or text[end : end + 1] in ("?", "*", "+", "{") or (not named and text.startswith("(?", at)):
                return None
            out += f"{{{named[1]}}}" if named else "*"
            at = end
        elif char == "\\" and text[at + 1 : at + 2] in ("Z", "A"):
            at += 2
        elif char == "\\" and not text[at + 1 : at + 2].isalnum():
            out += text[at + 1 : at + 2]
            at += 2
        elif char in "^$":
            at += 1
        elif char == "<":
            found = re.match(r"<[^<>]+>", text[at:])  # an included path
            if found is None:
                return None
            out += template_of_path(found[0])
            at += found.end()
        elif char in "\\[]{}|?*+.)":
            return None
        else:
            out += char
            at += 1
    return out


def _end_of_group(text: str, begin: int) -> Optional[int]:
    """The position after the group that begins here."""
    depth, at, in_set = 0, begin, False
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
            first = at + 2 if text.startswith("^", at + 1) else at + 1
            at = first if text.startswith("]", first) else at  # a bracket in first place is text
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return None
