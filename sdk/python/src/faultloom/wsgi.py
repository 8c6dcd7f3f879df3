"""WSGI middleware for applications other than Flask and Django: ``app = faultloom.wsgi.Middleware(app)``."""

from .hooks.http.wsgi import Middleware

__all__ = ["Middleware"]
