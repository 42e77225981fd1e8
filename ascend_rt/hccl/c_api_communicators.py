"""HCCL's C API of communicators: making, configuring and finding them.

Conventions and codes are those of c_api.py.  A communicator that is made blocks until all its ranks are here, at most
HCCL_CONNECT_TIMEOUT seconds:

    HCCL_E_PARA (1)       a wrong rank or size; ranks that do not agree, on settings either; a rank that is taken
    HCCL_E_MEMORY (3)     too many communicators are alive
    HCCL_E_UNAVAIL (7)    the job cannot be joined, or its server is gone
    HCCL_E_TIMEOUT (9)    ranks have not come
    HCCL_E_REMOTE (21)    a rank has ended before

Between HcclGroupStart and HcclGroupEnd those by root info or rank table give handles that are good from the end on.
"""

# ruff: noqa: N802  the functions have their C names
from collections.abc import Sequence
from enum import IntEnum

from .. import settings as settings_module
from ..acl.return_codes import integer
from ..diag.vocabulary import AbortKind, split_abort_word
from ..settings import SettingError, Settings
from . import grouping, rank_table, rank_threads, root_info
from .c_conventions import (
    CodedError,
    communicators,
    find_communicator,
    handle_named,
    returns_result,
    returns_value_and_result,
    usable_communicator,
)
from .choices import check_names
from .communicator import CODES, Communicator
from .config import HcclCommConfig
from .errors import HcclResult
from .groups import Place, form, servers_of

HCCL_ROOT_INFO_BYTES = root_info.ROOT_INFO_NBYTES
NO_GROUP = 0xFFFFFFFF
HCCL_DETERMINISTIC = 0


class HcclConfigType(IntEnum):
    """What HcclConfigGetInfo tells."""

    HCCL_CONFIG_TYPE_OP_EXPANSION_MODE = 0
    HCCL_CONFIG_TYPE_HCCL_ALGO = 1
    HCCL_CONFIG_TYPE_UB_MULTI_CHANNEL_NUM = 2


class HcclOpExpansionMode(IntEnum):
    """Who carries out the steps of a collective; here always the host."""

    HCCL_OP_EXPANSION_MODE_AI_CPU = 0
    HCCL_OP_EXPANSION_MODE_AIV = 1
    HCCL_OP_EXPANSION_MODE_HOST = 2
    HCCL_OP_EXPANSION_MODE_HOST_TS = 3


INFO_NBYTES = {
    HcclConfigType.HCCL_CONFIG_TYPE_OP_EXPANSION_MODE: 4,
    HcclConfigType.HCCL_CONFIG_TYPE_HCCL_ALGO: 1600,
    HcclConfigType.HCCL_CONFIG_TYPE_UB_MULTI_CHANNEL_NUM: 4,
}

ERROR_STRINGS = {
    HcclResult.HCCL_SUCCESS: "no error",
    HcclResult.HCCL_E_PARA: "parameter error",
    HcclResult.HCCL_E_PTR: "empty pointer",
    HcclResult.HCCL_E_MEMORY: "memory error",
    HcclResult.HCCL_E_INTERNAL: "internal error",
    HcclResult.HCCL_E_NOT_SUPPORT: "not support feature",
    HcclResult.HCCL_E_NOT_FOUND: "not found specific resource",
    HcclResult.HCCL_E_UNAVAIL: "resource unavailable",
    HcclResult.HCCL_E_SYSCALL: "call system interface error",
    HcclResult.HCCL_E_TIMEOUT: "timeout",
    HcclResult.HCCL_E_OPEN_FILE_FAILURE: "open file fail",
    HcclResult.HCCL_E_TCP_CONNECT: "tcp connect fail",
    HcclResult.HCCL_E_ROCE_CONNECT: "roce connect fail",
    HcclResult.HCCL_E_TCP_TRANSFER: "tcp transfer fail",
    HcclResult.HCCL_E_ROCE_TRANSFER: "roce transfer fail",
    HcclResult.HCCL_E_RUNTIME: "call runtime api fail",
    HcclResult.HCCL_E_DRV: "call driver api fail",
    HcclResult.HCCL_E_PROFILING: "call profiling api fail",
    HcclResult.HCCL_E_CCE: "call cce api fail",
    HcclResult.HCCL_E_NETWORK: "call network api fail",
    HcclResult.HCCL_E_AGAIN: "try again",
    HcclResult.HCCL_E_REMOTE: "error cqe",
    HcclResult.HCCL_E_SUSPENDING: "error communicator suspending",
    HcclResult.HCCL_E_OPRETRY_FAIL: "retry constraint",
    HcclResult.HCCL_E_OOM: "out of memory",
}

# ---- making ----


@returns_value_and_result
def HcclGetRootInfo() -> bytes:
    """(root info, ret): 4108 bytes, which one rank makes and hands to the others by whatever way the program has.

    They are for one communicator. All ranks of a job may also make their own, each for the communicator of them all.
    """
    return root_info.make(_settings(None))


def HcclCommInitRootInfo(n_ranks: int, info: bytes, rank: int, /) -> tuple[int, HcclResult]:
    """(comm, ret): a handle of the communicator of the n_ranks ranks that have these bytes."""
    return HcclCommInitRootInfoConfig(n_ranks, info, rank, None)


@returns_value_and_result
def HcclCommInitRootInfoConfig(n_ranks: int, info: bytes, rank: int, config: HcclCommConfig | None, /) -> int:
    """(comm, ret): HcclCommInitRootInfo with a configuration of its own."""
    n_ranks, rank = integer("n_ranks", n_ranks), integer("rank", rank)
    if not isinstance(info, bytes):
        raise TypeError(f"info is a {type(info).__name__}; expected the bytes of HcclGetRootInfo")
    if not 0 <= rank < n_ranks:
        text = f"rank={rank}, n_ranks={n_ranks}; expected a rank from 0, below n_ranks"
        raise CodedError(HcclResult.HCCL_E_PARA, text)
    settings, name = _settings(config), _name(config)
    return grouping.make(lambda: root_info.communicator(info, n_ranks, rank, settings, name))


def HcclCommInitClusterInfo(path: str, rank: int, /) -> tuple[int, HcclResult]:
    """(comm, ret): a handle of the communicator of all ranks of a rank table, a JSON file, this process as its rank."""
    return HcclCommInitClusterInfoConfig(path, rank, None)


@returns_value_and_result
def HcclCommInitClusterInfoConfig(path: str, rank: int, config: HcclCommConfig | None, /) -> int:
    """(comm, ret): HcclCommInitClusterInfo with a configuration of its own. HCCL_E_PARA also for a table that is wrong:
    acl.get_recent_err_msg() names the file, the key and what was expected."""
    if not isinstance(path, str):
        raise TypeError(f"path is a {type(path).__name__}; expected a str")
    number, settings, name = integer("rank", rank), _settings(config), _name(config)
    return grouping.make(lambda: rank_table.communicator(path, number, settings, name))


@returns_value_and_result
def HcclCommInitAll(ndev: int, devices: Sequence[int], /) -> list[int]:
    """(comms, ret): a communicator for each of the `ndev` devices, in their order; its ranks are threads of this one
    process, of which each sets its device and uses its handle. Waits for nobody.

    Call it before memory is allocated: that which is there already goes through the job's memory in pieces. Devices
    that ASCEND_RT_DEVICES does not count are there because they are named here. One thread may do for all ranks, as
    long as it only queues; a rank whose thread ends is missed at HCCL_EXEC_TIMEOUT, or told by HcclCommDestroy.
    """
    indices = [integer("devices", each) for each in devices]
    if integer("ndev", ndev) != len(indices):
        raise CodedError(HcclResult.HCCL_E_PARA, f"ndev={ndev}, devices={indices}; expected so many devices")
    return [communicators.add(each) for each in rank_threads.communicators(indices, _settings(None))]


@returns_value_and_result
def HcclCreateSubCommConfig(
    comm: int,
    rank_num: int,
    rank_ids: Sequence[int] | None,
    sub_comm_id: int,
    sub_comm_rank_id: int,
    config: HcclCommConfig | None = None,
    /,
) -> int:
    """(comm, ret): a handle of the communicator of some ranks of comm, each of which calls this with the same list.

    rank_ids: its ranks in comm, ascending; their places are their ranks in the new one. sub_comm_id: tells it from
    others that are made at the same time. A rank that is none of them need not call; it may, with rank_ids None and
    sub_comm_id 0xFFFFFFFF, and gets 0.
    """
    parent = usable_communicator(comm)
    number, place = integer("sub_comm_id", sub_comm_id), integer("sub_comm_rank_id", sub_comm_rank_id)
    if rank_ids is None and number == NO_GROUP:
        return 0
    if rank_ids is None:
        raise CodedError(HcclResult.HCCL_E_PTR, "rank_ids is a null pointer, and sub_comm_id not 0xFFFFFFFF")
    ids = [integer("rank_ids", each) for each in rank_ids]
    if len(ids) != integer("rank_num", rank_num) or ids != sorted(set(ids)) or not set(ids) <= set(range(parent.size)):
        text = f"rank_num={rank_num}, rank_ids={ids}; expected so many ranks of the communicator, ascending"
        raise CodedError(HcclResult.HCCL_E_PARA, text)
    if not 0 <= place < len(ids) or ids[place] != parent.rank:
        text = f"sub_comm_rank_id={place}; expected the place of this rank, {parent.rank}, in rank_ids={ids}"
        raise CodedError(HcclResult.HCCL_E_PARA, text)
    members = tuple(parent.world_ranks[each] for each in ids)
    name = _name(config) or f"{parent.name}_sub_{number}"
    settings = parent._settings if config is None else _applied(config, parent._settings)
    wanted = Place(f"{parent._group.board}.sub{number}", place, len(ids), members, servers_of(parent, ids))
    return communicators.add(form(parent._membership, parent._memory, settings, wanted, name))


def handle_of(communicator: Communicator) -> int:
    """A handle, for the C-named functions, of a communicator that has been made from Python; always the same."""
    for handle, known in communicators.items():
        if known is communicator:
            return handle
    return communicators.add(communicator)


# ---- configuration ----


def HcclCommConfigInit(config: HcclCommConfig, /) -> None:
    """Every field of `config` becomes what stands for "not set"."""
    fresh = HcclCommConfig()
    vars(config).update(vars(fresh))


def HcclGetCommConfigCapability() -> int:
    """How many of HcclCommConfigCapability there are: a feature is there if its number is less."""
    return 12


@returns_result
def HcclSetConfig(config: int, value: int, /) -> None:
    """HCCL_DETERMINISTIC (0) for communicators that are made from here on in this process: 0 off, 1 on, 2 strict."""
    global _deterministic
    if integer("config", config) != HCCL_DETERMINISTIC or integer("value", value) not in (0, 1, 2):
        text = f"config={config}, value={value}; expected HCCL_DETERMINISTIC (0) and 0, 1 or 2"
        raise CodedError(HcclResult.HCCL_E_PARA, text)
    _deterministic = value


@returns_value_and_result
def HcclGetConfig(config: int, /) -> int:
    """(value, ret) of HCCL_DETERMINISTIC (0)."""
    if integer("config", config) != HCCL_DETERMINISTIC:
        raise CodedError(HcclResult.HCCL_E_PARA, f"config={config}; expected HCCL_DETERMINISTIC (0)")
    word = _settings(None).hccl_deterministic
    return next(number for number, each in settings_module.DETERMINISTIC.items() if each == word)  # type: ignore


@returns_value_and_result
def HcclConfigGetInfo(comm: int, config_type: int, info_len: int, /) -> int | str:
    """(info, ret): what a communicator is configured for.

    config_type: HCCL_CONFIG_TYPE_OP_EXPANSION_MODE (info_len 4: HCCL_OP_EXPANSION_MODE_HOST, always), or
    HCCL_CONFIG_TYPE_HCCL_ALGO (info_len 1600: the text of HCCL_ALGO, "" if it is not set). HCCL_E_NOT_SUPPORT: of
    channels of UB, which are not here. info_len: bytes of what C is to write, or HCCL_E_PARA.
    """
    settings = find_communicator(comm)._settings
    number = integer("config_type", config_type)
    if number not in set(HcclConfigType):
        raise CodedError(HcclResult.HCCL_E_PARA, f"config_type={number}; expected one of HcclConfigType")
    kind = HcclConfigType(number)
    if integer("info_len", info_len) != INFO_NBYTES[kind]:
        text = f"info_len={info_len}; expected the {INFO_NBYTES[kind]} bytes of {kind.name}"
        raise CodedError(HcclResult.HCCL_E_PARA, text)
    if kind is HcclConfigType.HCCL_CONFIG_TYPE_OP_EXPANSION_MODE:
        return HcclOpExpansionMode.HCCL_OP_EXPANSION_MODE_HOST
    if kind is HcclConfigType.HCCL_CONFIG_TYPE_HCCL_ALGO:
        return str(settings.hccl_algo or "")
    raise CodedError(HcclResult.HCCL_E_NOT_SUPPORT, f"{kind.name}: ranks share memory, and have no channels of UB")


# ---- looking ----


@returns_value_and_result
def HcclGetRankSize(comm: int, /) -> int:
    """(number of ranks, ret)"""
    return find_communicator(comm).size


@returns_value_and_result
def HcclGetRankId(comm: int, /) -> int:
    """(rank of this process in comm, ret)"""
    return find_communicator(comm).rank


@returns_value_and_result
def HcclGetCommName(comm: int, /) -> str:
    """(name, ret)"""
    return find_communicator(comm).name


@returns_value_and_result
def HcclCommGetHandleWithName(name: str, /) -> int:
    """(comm, ret) of the latest with this name. HCCL_E_NOT_FOUND: this process has none."""
    return handle_named(name)


@returns_value_and_result
def HcclGetCommAsyncError(comm: int, /) -> HcclResult:
    """(HCCL_SUCCESS, ret), or what has ended the communicator: HCCL_E_REMOTE when a rank died, HCCL_E_TIMEOUT ..."""
    word = find_communicator(comm)._abort_word()
    if not word:
        return HcclResult.HCCL_SUCCESS
    return CODES[AbortKind(split_abort_word(word)[0])][0]


def HcclGetErrorString(result: int, /) -> str:
    """What HCCL calls a result; "unknown error" for any other integer."""
    return {int(code): text for code, text in ERROR_STRINGS.items()}.get(integer("result", result), "unknown error")


def _settings(config: HcclCommConfig | None) -> Settings:
    try:
        settings = settings_module.read()
        check_names(settings)
        if _deterministic is not None:
            settings = settings.with_config({"hcclDeterministic": _deterministic})
    except SettingError as error:
        raise CodedError(HcclResult.HCCL_E_PARA, str(error)) from None
    return settings if config is None else _applied(config, settings)


def _applied(config: HcclCommConfig, settings: Settings) -> Settings:
    try:
        return config.apply(settings)
    except SettingError as error:
        raise CodedError(HcclResult.HCCL_E_PARA, str(error)) from None


def _name(config: HcclCommConfig | None) -> str | None:
    """The name that a configuration gives; HCCL_E_PARA if this process has a communicator of that name."""
    name = config.hcclCommName if config is not None else ""
    if name and any(each.name == name for _, each in communicators.items()):
        raise CodedError(HcclResult.HCCL_E_PARA, f"hcclCommName={name!r}: this process has a communicator of that name")
    return name or None


_deterministic: int | None = None
