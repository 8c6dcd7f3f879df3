"""Faultloom for Python: message-level tracing and temporal fault injection, without a change to the application.

See README.md for installation; ``faultloom.auto`` or the ``faultloom-python`` launcher install the hooks.
"""

__version__ = "0.1.0"
SPEC_VERSION = 1
