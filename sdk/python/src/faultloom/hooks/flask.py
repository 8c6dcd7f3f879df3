"""Flask on the receiving side: ``Flask.__call__`` and ``Flask.wsgi_app`` serve through ``faultloom.wsgi``.

The route template is the matched rule with Flask's ``<int:id>`` written ``{id}``; it is read from the request context,
which ``request_context`` leaves in the environ for us.
"""

from __future__ import annotations

import re
from typing import Any, Dict

from ..wsgi import SERVED_KEY, serve
from .patching import Patch

CONTEXT_KEY = "faultloom.flask"
_VARIABLE = re.compile(r"<(?:[^<>:]*(?:\([^<>]*\))?:)?([^<>:]+)>")


def patch(patch: Patch, module: Any) -> None:
    """``module``: flask.app."""
    flask = module.Flask
    call, wsgi_app, request_context = flask.__call__, flask.wsgi_app, flask.request_context

    def traced_call(self: Any, environ: Dict[str, Any], start_response: Any) -> Any:
        return serve(lambda e, s: call(self, e, s), environ, start_response, route_of)

    def traced_wsgi_app(self: Any, environ: Dict[str, Any], start_response: Any) -> Any:
        if SERVED_KEY in environ:
            return wsgi_app(self, environ, start_response)
        return serve(lambda e, s: wsgi_app(self, e, s), environ, start_response, route_of)

    def noted_request_context(self: Any, environ: Dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        context = request_context(self, environ, *args, **kwargs)
        if environ.get(SERVED_KEY):
            environ[CONTEXT_KEY] = context
        return context

    patch.replace(flask, "__call__", traced_call)
    patch.replace(flask, "wsgi_app", traced_wsgi_app)
    patch.replace(flask, "request_context", noted_request_context)


def template(rule: str) -> str:
    """``/cart/<int:id>`` as ``/cart/{id}``."""
    return _VARIABLE.sub(r"{\1}", rule)


def route_of(environ: Dict[str, Any]) -> str:
    """``METHOD /template`` of the request, or "" if no rule matched."""
    context = environ.pop(CONTEXT_KEY, None)
    rule = getattr(getattr(context, "request", None), "url_rule", None)
    if rule is None:
        return ""
    return f"{environ['REQUEST_METHOD']} {environ.get('SCRIPT_NAME', '')}{template(rule.rule)}"
