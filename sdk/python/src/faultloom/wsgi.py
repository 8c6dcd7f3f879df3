"""WSGI middleware for applications other than Flask: ``app = faultloom.wsgi.Middleware(app)``."""

from .hooks.http.wsgi import Middleware

__all__ = ["Middleware"]
