"""Flask on the serving side: ``Flask.__call__`` and ``Flask.wsgi_app`` serve through ``wsgi``.

The route template is the matched rule, with Flask's ``<int:id>`` written as ``{id}``. It is read from the request that
Werkzeug stores in the environ.
"""

from __future__ import annotations

import re
from typing import Any, Dict

from ...scope.unscoped import OPEN_SCOPES
from ..patching import Patch
from ..process import this_process
from .wsgi import BAGGAGE_KEY, ENVIRON_KEY, SERVED_KEY, serve, serve_untraced

_VARIABLE = re.compile(r"<(?:[^<>:]*(?:\([^<>]*\))?:)?([^<>:]+)>")


def patch(patch: Patch, module: Any) -> None:
    """``module``: flask.app."""
    flask = module.Flask
    call, wsgi_app = flask.__call__, flask.wsgi_app
    samples = this_process().entry.sample_one_in > 0

    def traced_call(self: Any, environ: Dict[str, Any], start_response: Any) -> Any:
        if samples or ENVIRON_KEY in environ or BAGGAGE_KEY in environ:
            return serve(lambda e, s: call(self, e, s), environ, start_response, route_of)
        if OPEN_SCOPES and SERVED_KEY not in environ:
            return serve_untraced(lambda e, s: call(self, e, s), environ, start_response)
        return call(self, environ, start_response)

    def traced_wsgi_app(self: Any, environ: Dict[str, Any], start_response: Any) -> Any:
        if samples or ENVIRON_KEY in environ or BAGGAGE_KEY in environ:
            return serve(lambda e, s: wsgi_app(self, e, s), environ, start_response, route_of)
        if OPEN_SCOPES and SERVED_KEY not in environ:
            return serve_untraced(lambda e, s: wsgi_app(self, e, s), environ, start_response)
        return wsgi_app(self, environ, start_response)

    patch.replace(flask, "__call__", traced_call)
    patch.replace(flask, "wsgi_app", traced_wsgi_app)


def template(rule: str) -> str:
    """``/cart/<int:id>`` as ``/cart/{id}``."""
    return _VARIABLE.sub(r"{\1}", rule)


def route_of(environ: Dict[str, Any]) -> str:
    """``METHOD /template`` of the request, or "" if no rule matched."""
    rule = getattr(environ.get("werkzeug.request"), "url_rule", None)
    if rule is None:
        return ""
    return f"{environ['REQUEST_METHOD']} {environ.get('SCRIPT_NAME', '')}{template(rule.rule)}"
