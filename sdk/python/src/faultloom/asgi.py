"""ASGI middleware for applications other than Starlette and FastAPI: ``app = faultloom.asgi.Middleware(app)``."""

from .hooks.http.asgi import Middleware

__all__ = ["Middleware"]
