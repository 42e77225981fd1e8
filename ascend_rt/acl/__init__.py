"""The device runtime: one file per noun (device memory, stream, event; later device, context)."""

from .event import Event
from .stream import Stream

__all__ = ["Event", "Stream"]
