"""Communicators and collectives, and the errors they raise."""

from .communicator import Communicator
from .errors import HcclError, HcclResult
from .types import HcclDataType, HcclReduceOp

__all__ = ["Communicator", "HcclDataType", "HcclError", "HcclReduceOp", "HcclResult"]
