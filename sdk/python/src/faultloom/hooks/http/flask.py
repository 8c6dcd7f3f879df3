"""Flask on the serving side: ``Flask.__call__`` and ``Flask.wsgi_app`` serve through ``wsgi``.

The route template is the matched rule. It is read from the request that Werkzeug stores in the environ.
"""

from __future__ import annotations

import re
from typing import Any, Dict

from ..patching import Patch
from .wsgi import route_name, traced_application

_VARIABLE = re.compile(r"<(?:([^<>:(]*)(?:\([^<>]*\))?:)?([^<>:]+)>")


def patch(patch: Patch, module: Any) -> None:
    """``module``: flask.app."""
    flask = module.Flask
    for name in ("__call__", "wsgi_app"):
        patch.replace(flask, name, traced_application(getattr(flask, name), route_of))


def template(rule: str) -> str:
    """``/cart/<int:id>/<path:rest>`` as ``/cart/{id}/{*rest}``."""
    return _VARIABLE.sub(lambda found: f"{{{'*' if found[1] == 'path' else ''}{found[2]}}}", rule)


def route_of(environ: Dict[str, Any]) -> str:
    """``METHOD /template`` of the request, or "" if no rule names it."""
    rule = getattr(environ.get("werkzeug.request"), "url_rule", None)
    return "" if rule is None else route_name(environ, template(rule.rule))
