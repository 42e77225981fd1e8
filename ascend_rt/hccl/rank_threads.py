"""Ranks that are threads of one process, each with a device: a job of its own, inside this process."""

import itertools
from collections.abc import Sequence

from ..acl import device as local
from ..acl.memory import DeviceMemory
from ..link.devices import host_devices, visible_devices
from ..link.membership import Group, Membership
from ..link.rendezvous import ranks_of_this_process
from ..link.segment import make_job_memory
from ..settings import Settings
from . import choices, tuning
from .communicator import Communicator
from .entry_log import communicator_class
from .errors import HcclError, HcclResult

_numbers = itertools.count(1)


def communicators(devices: Sequence[int], settings: Settings) -> list[Communicator]:
    """One communicator for each of the devices, in their order: together they are the ranks of a job. Waits for nobody.

    Device memory of this process moves to that job, if nothing has been allocated and it is in no job of several ranks;
    else arrays go through the job's memory in pieces. HcclError (HCCL_E_PARA): there is no such device, or one twice.
    """
    count = _host_devices(devices, settings)
    segment = make_job_memory(len(devices), devices=count, like=local.joined_segment())
    memberships = ranks_of_this_process(segment)
    moved = local.move_to(memberships[0], dict(zip(devices, memberships, strict=True)))
    group = Group(0, tuple(range(len(devices))))
    name, made = f"init_all_{next(_numbers)}", communicator_class(settings)
    found = [
        made(membership, _memory(membership, index, settings, moved), settings, group, name)
        for index, membership in zip(devices, memberships, strict=True)
    ]
    measured = tuning.read(settings).for_ranks(len(devices))
    for communicator in found:
        choices.settle(communicator, measured, ())
    return found


def _host_devices(devices: Sequence[int], settings: Settings) -> int:
    """Devices of the host: as many as it has, or just enough for those that are named."""
    if not devices or len(set(devices)) < len(devices) or min(devices) < 0:
        text = f"devices={list(devices)}; expected devices from 0 on, each once"
        raise HcclError(HcclResult.HCCL_E_PARA, text)
    named = settings.ascend_rt_visible_devices is None and settings.ascend_rt_devices is None
    count = host_devices(settings, max(devices) + 1 if named else 1)
    seen = len(visible_devices(settings, count))
    if max(devices) >= seen:
        text = f"devices={list(devices)}; expected 0 to {seen - 1}: this process sees {seen} (ASCEND_RT_DEVICES)"
        raise HcclError(HcclResult.HCCL_E_PARA, text)
    return count


def _memory(membership: Membership, index: int, settings: Settings, moved: bool) -> DeviceMemory:
    if moved:
        return local.open_device(index, membership).memory
    on_host = visible_devices(settings, membership.segment.devices)[index]
    return DeviceMemory(membership.segment, on_host, membership.rank, index)
