"""The rank table: a JSON file that says which ranks there are, on which devices of which servers.

Understood are versions 1.0, 1.2 and 2.0 with a server_list, and the older form with a group_list.  Every value is a
string, numbers included.  Ranks count from 0, and those of one server follow one another.

    EI0004    the file cannot be read, or is no JSON
    EI0014    a value is not what it has to be
    EI0017    a key is missing
"""

import hashlib
import ipaddress
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..link.errors import JoinError
from ..link.groups import WORLD
from ..link.placement import Placement
from ..link.rendezvous import enter_meeting
from ..settings import Settings
from . import root_info
from .communicator import Communicator, live
from .errors import HcclError, HcclResult, unavailable
from .groups import Place, form

VERSIONS = ("1.0", "1.2", "2.0")
PATH_NBYTES, SERVER_ID_LENGTH = 4096, 64


@dataclass(frozen=True)
class RankTable:
    """What a rank table says, by rank."""

    servers: tuple[str, ...]
    """server_id"""
    devices: tuple[int, ...]
    """device_id, in its server"""
    digest: str
    """of the file's content"""

    @property
    def size(self) -> int:
        return len(self.servers)

    @property
    def server_numbers(self) -> tuple[int, ...]:
        """Servers counted from 0, in the order in which they come."""
        order = sorted(set(self.servers), key=self.servers.index)
        return tuple(order.index(server) for server in self.servers)


def communicator(path: str, rank: int, settings: Settings, name: str | None) -> Communicator:
    """The communicator of all ranks of the table at `path`, this process as its rank `rank`. Blocks until all are here,
    HCCL_CONNECT_TIMEOUT at most.

    HcclError: see above (HCCL_E_PARA; HCCL_E_OPEN_FILE_FAILURE if the file cannot be read), and as of `form`.
    """
    table = read(path)
    name = name or f"rank_table_{table.digest[:8]}"
    if not 0 <= rank < table.size:
        text = f"rank={rank}; expected a rank of {path}, 0 to {table.size - 1}"
        raise HcclError(HcclResult.HCCL_E_PARA, text, ei="EI0014")
    if any(each.name == name for each in live()):
        raise HcclError(HcclResult.HCCL_E_PARA, f"rank {rank}: this process has a communicator of {path} already")
    return _form(table, rank, settings, name)


def _form(table: RankTable, rank: int, settings: Settings, name: str) -> Communicator:
    if table.size == 1 or root_info.is_in_a_job(settings):
        device = root_info.own_device()
        place = Place(f"table{table.digest}", rank, table.size, servers=table.server_numbers)
        return form(device.membership, device.memory, settings, place, name)
    try:
        membership = enter_meeting(Placement(rank, table.size, f"rank table {table.digest}"), settings)
        membership.await_all(settings.hccl_connect_timeout)
    except JoinError as error:
        raise unavailable(error) from None
    place = Place(WORLD, rank, table.size, servers=table.server_numbers)
    return form(membership, root_info.memory_in(membership), settings, place, name)


def read(path: str) -> RankTable:
    """The table at `path`; HcclError if it is wrong."""
    if len(path.encode()) >= PATH_NBYTES or "\0" in path:
        raise _wrong(path, "path", f"{len(path.encode())} bytes", f"less than {PATH_NBYTES} bytes without NUL")
    try:
        content = Path(path).read_bytes()
        table = json.loads(content)
    except OSError as error:
        text = f"rank table {path} cannot be read: {error.strerror}"
        raise HcclError(HcclResult.HCCL_E_OPEN_FILE_FAILURE, text, ei="EI0004") from None
    except ValueError as error:
        text = f"rank table {path} is no JSON: {error}"
        raise HcclError(HcclResult.HCCL_E_PARA, text, ei="EI0004") from None
    entries = _Reader(path, table, "").entries()
    by_rank = {rank: (server, device) for rank, server, device in entries}
    return RankTable(
        tuple(by_rank[rank][0] for rank in range(len(by_rank))),
        tuple(by_rank[rank][1] for rank in range(len(by_rank))),
        hashlib.sha256(content).hexdigest()[:32],
    )


class _Reader:
    """One object of the table, and how to reach it: an error names the whole way to a key."""

    def __init__(self, path: str, found: Any, at: str) -> None:
        self._path, self._at = path, at
        if not isinstance(found, dict):
            raise _wrong(path, at or "the table", repr(found), "an object")
        self._found: dict[str, Any] = found

    def entries(self) -> list[tuple[int, str, int]]:
        """(rank, server, device) of all ranks of the table, in their order in the file."""
        self._choice("status", ("completed",))
        if "server_list" not in self._found and "group_list" in self._found:
            return self._checked(list(self._entries_of_groups()))
        self._choice("version", VERSIONS)
        servers = self._list("server_list")
        if self._number("server_count") != len(servers):
            raise self._error("server_count", f"{len(servers)}, the length of server_list")
        ids = [server._text("server_id") for server in servers]
        for server, name in zip(servers, ids, strict=True):
            if len(name) > SERVER_ID_LENGTH or ids.count(name) > 1:
                raise server._error("server_id", f"at most {SERVER_ID_LENGTH} letters, another for each server")
        return self._checked([
            (device._number("rank_id"), name, device._device())
            for server, name in zip(servers, ids, strict=True)
            for device in server._list("device")
        ])

    def _entries_of_groups(self) -> Iterator[tuple[int, str, int]]:
        """The older form: an instance has one device and its rank, or is a pod of several, and ranks are counted."""
        rank = 0
        for group in self._list("group_list"):
            for instance in group._list("instance_list"):
                devices = instance._list("devices")
                if "rank_id" in instance._found and len(devices) == 1:
                    rank = instance._number("rank_id")
                for device in devices:
                    yield rank, instance._text("server_id"), device._device()
                    rank += 1

    def _checked(self, entries: list[tuple[int, str, int]]) -> list[tuple[int, str, int]]:
        ranks = sorted(rank for rank, _, _ in entries)
        if ranks != list(range(len(ranks))):
            raise _wrong(self._path, "rank_id", str(ranks), f"each of 0 to {len(ranks) - 1} once")
        seen: list[str] = []
        for rank, server, _ in sorted(entries):
            if server in seen and server != seen[-1]:
                raise _wrong(self._path, "rank_id", f"rank {rank} on {server}", "ranks of one server one after another")
            seen.append(server)
        places = [(server, device) for _, server, device in entries]
        for rank, server, device in entries:
            if places.count((server, device)) > 1:
                raise _wrong(self._path, "device_id", f"{device} twice on {server} (rank {rank})", "each device once")
        return entries

    def _device(self) -> int:
        address = self._found.get("device_ip", "")
        if address != "":
            try:
                ipaddress.ip_address(self._text("device_ip"))
            except ValueError:
                raise self._error("device_ip", "an IP address") from None
        return self._number("device_id")

    def _text(self, key: str) -> str:
        if key not in self._found:
            text = f"rank table {self._path}: {self._at}{key} is missing"
            raise HcclError(HcclResult.HCCL_E_PARA, text, ei="EI0017")
        value = self._found[key]
        if not isinstance(value, str):
            raise self._error(key, "a string, as every value is")
        return value

    def _number(self, key: str) -> int:
        text = self._text(key)
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise self._error(key, "a whole number, as a string")
        return int(text)

    def _choice(self, key: str, words: tuple[str, ...]) -> None:
        if self._text(key) not in words:
            raise self._error(key, " or ".join(map(repr, words)))

    def _list(self, key: str) -> "list[_Reader]":
        if key not in self._found:
            self._text(key)
        value = self._found[key]
        if not isinstance(value, list) or not value:
            raise self._error(key, "a list that is not empty")
        return [_Reader(self._path, each, f"{self._at}{key}[{number}].") for number, each in enumerate(value)]

    def _error(self, key: str, expected: str) -> HcclError:
        return _wrong(self._path, f"{self._at}{key}", repr(self._found[key]), expected)


def _wrong(path: str, key: str, given: str, expected: str) -> HcclError:
    text = f"rank table {path}: {key} is {given}; expected {expected}"
    return HcclError(HcclResult.HCCL_E_PARA, text, ei="EI0014")
