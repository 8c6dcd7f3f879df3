"""Hooks for grpcio: synchronous and asyncio clients and servers."""
