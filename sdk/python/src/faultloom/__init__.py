"""Faultloom for Python: message-level tracing and fault injection, without a change to the application.

See README.md for installation. ``faultloom.auto`` or the ``faultloom-python`` launcher installs the hooks.
"""

__version__ = "0.1.0"
SPEC_VERSION = 1

from .starting import Signer, Started, starting
from .trust.settings import Key
from .wire.errors import FaultloomError
from .wire.history import Event, History, Segment, decode_history
from .wire.plan import After, Fault
from .wire.selectors import Selector

__all__ = [
    "After", "Event", "Fault", "FaultloomError", "History", "Key", "Segment", "Selector", "Signer", "Started",
    "decode_history", "starting",
]  # fmt: skip
