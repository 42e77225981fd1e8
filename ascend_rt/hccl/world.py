"""The world of this process: its place in the job, its device, its communicator."""

import atexit
import os
from dataclasses import dataclass

import numpy.typing as npt

from .. import settings as settings_module
from ..acl.device import current, leave, stop_streams
from ..acl.memory import Array, DeviceMemory, Shape
from ..link.errors import JoinError
from ..link.groups import WORLD
from ..link.membership import Membership
from .communicator import Communicator, live
from .errors import HcclError, HcclResult
from .splitting import Place, form


@dataclass
class World:
    membership: Membership
    memory: DeviceMemory
    communicator: Communicator


_world: World | None = None


def init() -> Communicator:
    """Join the job that hccl-run describes in the environment; a world of one without a launcher. Again: the same.

    Blocks until every rank has joined, at most HCCL_CONNECT_TIMEOUT seconds. Raises SettingError (EI0001) for a bad
    variable and HcclError if the job cannot be joined.
    """
    return _get_world().communicator


def finalize() -> None:
    """Leave the job. Waits for nobody; calling it again does nothing. Later collectives of this process raise.

    What is still queued on streams is dropped, and told: the job's exit code is then not 0.
    """
    global _world
    if _world is not None:
        stop_streams()
        for communicator in live():
            communicator.destroy()
        _world = None
        leave()


def empty(shape: Shape, dtype: npt.DTypeLike = "float32") -> Array:
    """An array of undefined values in device memory: any shape and dtype. DeviceMemoryError when it is full."""
    return _get_world().memory.empty(shape, dtype)


def zeros(shape: Shape, dtype: npt.DTypeLike = "float32") -> Array:
    """An array of zeros in device memory: any shape and dtype. DeviceMemoryError when it is full."""
    return _get_world().memory.zeros(shape, dtype)


def array(values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
    """A copy of `values` in device memory, of their own dtype by default. DeviceMemoryError when it is full."""
    return _get_world().memory.array(values, dtype)


def _get_world() -> World:
    global _world
    if _world is None:
        settings = settings_module.read()
        try:
            device = current()
            device.membership.await_all(settings.hccl_connect_timeout)
        except JoinError as error:
            raise HcclError(HcclResult.HCCL_E_UNAVAIL, str(error), error.ranks, error.code) from None
        place = Place(WORLD, device.membership.rank, device.membership.size)
        communicator = form(device.membership, device.memory, settings, place, WORLD)
        _world = World(device.membership, device.memory, communicator)
        os.register_at_fork(after_in_child=_forget)
        atexit.register(finalize)
    return _world


def _forget() -> None:
    """In a fork of a rank: it is no rank. Its arrays stay readable; collectives raise, and its exit tells nobody."""
    global _world
    for communicator in live():
        communicator.destroy()
    _world = None
