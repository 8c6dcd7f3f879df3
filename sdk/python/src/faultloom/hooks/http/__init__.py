"""Hooks for HTTP: ``http.client`` and httpx on the calling side, WSGI and Flask on the serving side."""
