"""The world of this process: its place in the job, its device, its communicator."""

import atexit
import contextlib
import os
from dataclasses import dataclass

import numpy.typing as npt

from .. import settings as settings_module
from ..acl.device import current, enter_job, leave, stop_streams
from ..acl.memory import Array, DeviceMemory, Shape
from ..acl.stream import Stream
from ..diag import log
from ..link.errors import GroupError, JoinError
from ..link.groups import WORLD
from ..link.limits import usable_cpus
from ..link.membership import Membership
from ..settings import Links, SettingError, Settings
from .choices import check_names
from .communicator import Communicator, live
from .errors import HcclError, HcclResult, unavailable
from .groups import Place, form


@dataclass
class World:
    membership: Membership
    memory: DeviceMemory
    settings: Settings
    communicator: Communicator


_world: World | None = None


def init(*, link: str | None = None) -> Communicator:
    """Join the job that hccl-run describes in the environment; a world of one without a launcher. Again: the same.

    link    emulated links, as ASCEND_RT_LINK and instead of it; the same on all ranks. Only the call that joins can say

    Blocks until every rank has joined, at most HCCL_CONNECT_TIMEOUT seconds. Raises SettingError (EI0001) for a bad
    variable of this rank or (EI0016) a bad link, ValueError for a link that the world does not have, and HcclError if a
    variable of another rank is bad or the job cannot be joined.
    """
    if link is None:
        return _get_world().communicator
    world = _get_world(link)
    wanted, has = world.settings.with_link(link).ascend_rt_link, world.settings.ascend_rt_link
    if wanted != has:
        raise ValueError(f"rt.init(link={link!r}): the world has been made, with {has or 'no emulated links'}")
    return world.communicator


def emulated_links() -> Links | None:
    """The emulated links of the job that this process has joined; None: it has none, or has joined none."""
    return None if _world is None else _world.settings.ascend_rt_link


def finalize() -> None:
    """Leave the job. Waits for nobody; calling it again does nothing. Later collectives of this process raise.

    What is still queued on streams is dropped, and told: the job's exit code is then not 0.
    """
    if _world is not None:
        stop_streams()
        _destroy_communicators()
        _leave()


def _leave() -> None:
    """At exit: the end of the process says more to ranks that wait for it than that it destroys its communicators."""
    global _world
    if _world is not None:
        stop_streams()
        for communicator in live():
            communicator._close()
        _world = None
        leave()


def replace_world(old: Communicator, fresh: Communicator) -> None:
    """If `old` is what `init` gives, that is `fresh` from here on."""
    if _world is not None and _world.communicator is old:
        _world.communicator = fresh


def empty(shape: Shape, dtype: npt.DTypeLike = "float32") -> Array:
    """An array of undefined values in device memory: any shape and dtype. DeviceMemoryError when it is full."""
    return _get_world().memory.empty(shape, dtype)


def zeros(shape: Shape, dtype: npt.DTypeLike = "float32") -> Array:
    """An array of zeros in device memory: any shape and dtype. DeviceMemoryError when it is full."""
    return _get_world().memory.zeros(shape, dtype)


def array(values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
    """A copy of `values` in device memory, of their own dtype by default. DeviceMemoryError when it is full."""
    return _get_world().memory.array(values, dtype)


def _get_world(link: str | None = None) -> World:
    global _world
    if _world is None:
        settings = _examined() if link is None else _examined().with_link(link)
        try:
            device = current()
            if device.membership.shares_process:
                text = "this process is several ranks (HcclCommInitAll): each thread uses the communicator of its rank"
                raise HcclError(HcclResult.HCCL_E_UNAVAIL, text)
            device.membership.await_all(settings.hccl_connect_timeout)
        except JoinError as error:
            log.write(log.ERROR, str(error))
            raise unavailable(error) from None
        _check_links(settings, device.membership.size)
        place = Place(WORLD, device.membership.rank, device.membership.size)
        communicator = form(device.membership, device.memory, settings, place, WORLD)
        Stream.set_turns(_take_turns(settings, device.membership.size))
        _world = World(device.membership, device.memory, settings, communicator)
        os.register_at_fork(after_in_child=_forget)
        atexit.register(_leave)
    return _world


def _examined() -> Settings:
    """The settings of this process. SettingError (EI0001) if one is wrong, which then all ranks of the job learn."""
    settings, wrong = settings_module.examine()
    try:
        log.open_log(settings)
        check_names(settings)
    except SettingError as error:
        wrong = wrong or error
    if wrong is None:
        return settings
    log.write(log.ERROR, str(wrong))
    if not settings_module.says_who(wrong.name):  # or nobody could be told: not as which rank
        with contextlib.suppress(JoinError, GroupError, SettingError):
            enter_job(settings).refuse_group(WORLD, str(wrong), settings.hccl_connect_timeout)
    raise wrong


def _take_turns(settings: Settings, size: int) -> bool:
    """With emulated links ranks that share cores proceed side by side, as on devices of their own: in time slices of
    Linux, 4 ms and more, one gets a dozen small kernels ahead of another, for which all wait in the next collective.
    Without links taking turns only costs: 3 to 8 % of a step of 4 ranks on 2 cores."""
    return settings.ascend_rt_link is not None and size > usable_cpus()


def _check_links(settings: Settings, size: int) -> None:
    links = settings.ascend_rt_link
    if links is not None and links.highest_rank() >= size:
        raise ValueError(f"link={links} names rank {links.highest_rank()}; the job has {size} ranks")


def _forget() -> None:
    """In a fork of a rank: it is no rank. Its arrays stay readable; collectives raise, and its exit tells nobody."""
    global _world
    _destroy_communicators()
    _world = None


def _destroy_communicators() -> None:
    """All of this process, and before them the graphs that have calls of them."""
    for communicator in live():
        for holder in list(communicator._holders):
            holder.destroy()
        communicator.destroy()
