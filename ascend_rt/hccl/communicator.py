"""Communicator: the collectives of one rank, as they look from Python.

The native base runs a call that is plainly right by itself (core/binding_plain.c). What is left to do here is policy:
the first call of a kind, whose algorithm has to be chosen; arguments that need a look; and failures.
"""

import sys
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..acl import recording
from ..acl.memory import Array, DeviceMemory
from ..acl.stream import Failure, Stream, spins_for
from ..core import _core
from ..diag import disagreement, log
from ..diag import failure as failure_words
from ..diag.call_site import call_site, instruction
from ..diag.vocabulary import AbortKind, collective_name, split_abort_word
from ..link.membership import Group, Membership
from ..plan.choice import Table
from ..plan.collectives import COLLECTIVES, Collective
from ..plan.language import Groups
from ..plan.linked import Wires
from ..plan.model import Machine
from ..settings import SettingError, Settings
from . import choices, explain, groups, recorded
from .arguments import Call, RefusedError, check, check_stream, told
from .buffers import Buffers, buffers, scratch_nbytes
from .collectives import Collectives
from .device_dtypes import check_dtype
from .errors import HcclError, HcclResult
from .forms import forms
from .splits import Splits
from .statements import code_of, statement
from .transfers import TRANSFERS, Transfers
from .types import NUMBER_OF_DTYPE

KERNELS = {
    "plain": _core.KERNEL_PLAIN,
    "avx2": _core.KERNEL_AVX2,
    "avx512": _core.KERNEL_AVX512,
    "neon": _core.KERNEL_NEON,
}
# Of every kind: one dimension, none, read-only, not contiguous.
_SAMPLES: list[Array] = [
    np.arange(6, dtype=np.float32),
    np.array(1, np.int64),
    np.frombuffer(b"read-only", np.uint8),
    np.zeros((2, 3, 4), np.float16)[:, ::2, 1:],
]
NOTICE_AFTER_S = 1.0
ROOT = 5  # in a statement, as the core tells it

CODES = {
    AbortKind.TIMEOUT: (HcclResult.HCCL_E_TIMEOUT, "EI0002"),
    AbortKind.DEATH: (HcclResult.HCCL_E_REMOTE, ""),
    AbortKind.LEFT: (HcclResult.HCCL_E_REMOTE, ""),
    AbortKind.DESTROYED: (HcclResult.HCCL_E_REMOTE, ""),
    AbortKind.INTERRUPT: (HcclResult.HCCL_E_REMOTE, ""),
    AbortKind.UNSERVED: (HcclResult.HCCL_E_UNAVAIL, ""),
    AbortKind.OVERRUN: (HcclResult.HCCL_E_INTERNAL, ""),
    AbortKind.UNREACHED: (HcclResult.HCCL_E_SYSCALL, ""),
}


class Communicator(Collectives, Splits, Transfers):
    """All ranks of a job, which call the same collectives in the same order.

    Every method blocks until the call is done on this rank; given a stream it is queued there instead and returns at
    once. Either way it returns its result array, which for a queued call is ready when the stream has been
    synchronised. Queued calls of one communicator run in the order in which they were issued, on whatever streams.

    Arrays are NumPy arrays: those of rt.empty, rt.zeros and rt.array lie in device memory and are used where they are;
    any other array, and any that is not contiguous, goes through device memory in pieces, which is a matter of this
    rank alone; large contiguous ones are reached where they lie if the system lets all ranks do so. Elements are int8
    to int64, uint8 to uint64, float16, float32, float64 or bfloat16 (ml_dtypes), the same on all ranks; float8_e4m3fn
    and float8_e5m2 are moved and not reduced. Counts are elements and may be 0.

    A failure is an HcclError that all ranks raise (a queued call's out of synchronize): after a disagreement or a wrong
    argument nothing has moved and the communicator works on; after a death, a timeout or an interrupt it has ended.

    rank, size      of this communicator
    name            "world", or what it was given when it was made
    world_ranks     ranks of the job by rank of this communicator
    servers         number of the server by rank, where a rank table names them; else 0
    """

    name: str
    servers: tuple[int, ...]
    _servers: Groups
    _table: Table
    _machine: Machine
    _wires: Wires
    _packet_nbytes: int
    _buffers: Buffers
    _piece_nbytes: int
    _timeout: int

    def __new__(
        cls, membership: Membership, memory: DeviceMemory, settings: Settings, group: Group, name: str
    ) -> "Communicator":
        board, members = group.board, group.members
        rank, size = members.index(membership.rank), len(members)
        self = super().__new__(
            cls, membership.segment, memory.device, rank, size, NUMBER_OF_DTYPE, Stream, members, board
        )
        self._trust_arrays(_SAMPLES)
        self._set_forms(forms(rank, size))
        self._packet_nbytes = settings.ascend_rt_packet_bytes
        if size == 1:  # a packet has nowhere to travel
            self._packet_nbytes = min(self._packet_nbytes, _core.PAYLOAD_NBYTES)
        self._buffers = buffers(settings, size)
        self._piece_nbytes = self._buffers.piece
        self._tune_by(settings, membership.size)
        if settings.ascend_rt_link is not None:
            self._set_links(settings.ascend_rt_link.costs(membership.rank, members))
        return self

    def _tune_by(self, settings: Settings, ranks_of_job: int) -> None:
        """How it waits, which kernels it runs, how large its pieces are."""
        self._timeout = settings.hccl_exec_timeout
        self._tune(
            spins_for(settings.ascend_rt_spin, ranks_of_job),
            # Who sleeps is back when woken; who yields to a kernel, when the kernel's time slice is over.
            settings.ascend_rt_yields if settings.ascend_rt_link is None else 0,
            settings.ascend_rt_sleep_ms * 1_000_000,
            settings.hccl_exec_timeout * 1_000_000_000,
            kernels_for(settings.ascend_rt_kernels),
            self._buffers.piece,
            settings.ascend_rt_reach_kib << 10,
            self._buffers.scratch,
        )

    def __init__(
        self, membership: Membership, memory: DeviceMemory, settings: Settings, group: Group, name: str
    ) -> None:
        """group: of ranks of the job, this one among them, formed by `membership`."""
        self.name, self.world_ranks = name, group.members
        self.rank, self.size = self.world_ranks.index(membership.rank), len(self.world_ranks)
        self._members = group.members if group.board else None
        self._membership, self._memory, self._settings, self._group = membership, memory, settings, group
        self._drop_board = weakref.finalize(self, membership.drop, group)
        self._drop_board.atexit = False
        self._splits = 0
        self._suspended = False
        self._strict_dtypes = settings.ascend_rt_strict_dtypes
        self._noticed = False
        self._has_table = False
        self._strict = settings.hccl_deterministic == "strict"
        self._holders: weakref.WeakSet[recorded.Holder] = weakref.WeakSet()
        self._defer(recording.is_active())
        _by_id[id(self)] = self

    def __repr__(self) -> str:
        return f"<Communicator {self.name!r}: rank {self.rank} of {self.size}>"

    def destroy(self) -> None:
        """This rank uses the communicator no more. Waits for nobody; calling it again does nothing.

        Calls that are queued still run. A rank that waits for a call of this one, which does not come any more, fails
        with HCCL_E_REMOTE that names it. Once every rank has destroyed it, and has nothing queued, its memory is given
        back. HcclError (HCCL_E_PARA): a graph has calls of it, which has to be destroyed first.
        """
        recorded.refuse_held(self)
        self._close()
        if not self._in_use():
            self._release()
            self._drop_board()

    def split(self, color: int | None, key: int | None = None) -> "Communicator | None":
        """New communicators, one for all ranks that pass the same color; None where color is None.

        Every rank of this communicator must call it; it blocks, like a collective. In the new one ranks are ordered by
        key (default: the rank here), equal keys by the rank here. It needs this one no more, and has its settings.
        HcclError on every rank: somebody passed what is no integer (HCCL_E_PARA), or has died (HCCL_E_REMOTE).
        """
        return groups.split(self, color, key)

    def resync(self) -> None:
        """Go on after a disagreement: all ranks take the highest call number of any of them.

        Ranks number their calls. A rank that had more calls queued than the others when one failed has counted them,
        though they are not run, and its next call would be told apart from the others' by its number. Every rank must
        call this, and make the same calls from there on. It is never queued and moves no data: it blocks until what is
        queued on this rank is over and every rank is here. Streams that failed must be synchronized as ever.

        Raises HcclError: HCCL_E_PARA if a rank makes another call instead, which all are told; the first cause if the
        communicator has ended, since then only a new job goes on.
        """
        self._resync()

    def explain(
        self, collective: str, nbytes: int, dtype: npt.DTypeLike = "float32", op: str = "sum"
    ) -> "explain.Explanation":
        """How a call would be done: the algorithm, who has decided, and what every candidate is predicted to take.

        collective: by the name of its method; nbytes: of one block, which is count times the size of an element; dtype
        and op: of the call, since sums of float16 and bfloat16 must not round once per hop. Asks no other rank and
        moves nothing. ValueError: what is asked for does not exist. Print the result, or read its fields.
        """
        return explain.explain(self, collective, nbytes, dtype, op)

    # ---- what the native base hands over ----

    def _all_reduce(self, x: Any, out: Any, op: Any, stream: Any) -> Array:
        return self._look_at(COLLECTIVES["all_reduce"], x, out, op, 0, stream)

    def _broadcast(self, x: Any, root: Any, stream: Any) -> Array:
        return self._look_at(COLLECTIVES["broadcast"], x, None, "sum", root, stream)

    def _barrier(self, stream: Any) -> None:
        nothing = np.empty(0, np.int8)
        self._look_at(COLLECTIVES["barrier"], nothing, nothing, "sum", 0, stream)

    def _run(self, spec: Collective, x: Any, out: Any, op: Any, root: Any, stream: Any) -> Array:
        if self._call_plainly(spec.number, x, out, op, root, stream):
            result: Array = x if out is None else out
            return result
        return self._look_at(spec, x, out, op, root, stream)

    def _look_at(self, spec: Collective, x: Any, out: Any, op: Any, root: Any, stream: Any) -> Array:
        """Checks the arguments of a call and runs or queues it; on a wrong one, tells all ranks."""
        recorded.refuse_while_recording(spec.name, stream)
        try:
            check_stream(stream)
            call = check(spec, self.rank, self.size, x, out, op, root, self._make_result)
            check_dtype(spec.name, call.dtype, call.op, self._strict_dtypes)
            self._submit(call, stream)
            return call.out
        except (RefusedError, MemoryError) as error:
            why = told(error)
        # Behind the handler: the error that all ranks raise is the same everywhere, without this rank's own before it.
        recorded.refuse_recorded(self, spec.name, why, stream)
        self._refuse(spec.number, why, stream)
        result: Array = x if out is None else out  # a queued refusal: synchronize tells
        return result

    def _submit(self, call: Call, stream: Stream | None) -> None:
        """Runs or queues a call, or has it recorded."""
        recorder = recording.recorder_of(stream)
        if recorder is not None and stream is not None:
            recorder.collective(stream, self, call)
            return
        arguments = (call.spec.number, call.dtype, call.op, call.root, call.count, call.x, call.out, stream)
        self._provide(call, lambda: self._call(*arguments))

    def _provide(self, call: Call, attempt: Callable[[], int | None]) -> None:
        """Makes what is missing for a call until the attempt misses nothing; until then nothing is said to anybody."""
        while (missing := attempt()) is not None:
            if missing == _core.CALL_NO_CHOICE:
                choices.add(self, call)
                self._learn_dtype(call.x.dtype, call.dtype)
            elif missing == _core.CALL_NO_SCRATCH:
                self._make_scratch(call)
            elif missing == _core.CALL_NO_STAGING:
                block = self._memory.allocate(2 * self._piece_nbytes)
                self._set_staging(block, block.offset)
            else:
                raise RefusedError(f"count={call.count}; expected no more elements than the job has bytes of memory")

    def _make_result(self, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", like: Array) -> Array:
        device = like.flags.c_contiguous and self._memory.holds(like)
        return self._memory.empty(shape, dtype) if device else np.empty(shape, dtype)

    def _make_scratch(self, call: Call) -> None:
        # Queued calls may still use what it replaces, which therefore is never freed.
        needed = self._scratch_needed(call.spec.number, call.dtype, call.op, call.root, call.count)
        nbytes = scratch_nbytes(needed, self._buffers.scratch)
        block = self._memory.allocate(nbytes)
        self._set_scratch(block, block.offset, nbytes)

    # ---- failures ----

    def _fail(self, told: tuple[Any, ...]) -> NoReturn:
        """Raises what all ranks raise."""
        raise self._error(Failure(0, *told[1:]))

    def _error(self, failure: Failure) -> HcclError:
        error = self._explained(failure)
        log.write(log.ERROR, str(error))
        return error

    def _explained(self, failure: Failure) -> HcclError:
        call = f"{collective_name(failure.collective)} #{failure.number}"
        if failure.how == _core.CALL_DIFFERS and failure.collective in TRANSFERS.values():
            return self._transfer_error(failure)
        if failure.how == _core.CALL_DIFFERS:
            statements = [statement(rank, *said) for rank, said in enumerate(failure.statements)]
            sender, receiver, sent, expected = failure.uneven
            if sent != expected:
                text = disagreement.describe_uneven(statements, self.rank, self.name, failure.uneven, self._members)
                return HcclError(HcclResult.HCCL_E_PARA, text, [sender, receiver], "EI0005")
            refused = [said.rank for said in statements if said.refusal is not None]
            text = disagreement.describe(statements, self.rank, self.name, self._members)
            return HcclError(code_of(statements), text, refused, "EI0003" if refused else "EI0005")
        kind, culprit, _ = split_abort_word(failure.abort)
        code, ei = CODES[kind]
        doing = f'{call} of group "{self.name}" ({failure.where})'
        group = self._group if self._group.board else None
        segment, own = self._membership.segment, self._membership.rank
        text = failure_words.describe(failure.abort, segment, own, doing, self._timeout or None, group)
        known = kind is not AbortKind.UNSERVED and culprit in self.world_ranks
        return HcclError(code, text, [self.world_ranks.index(culprit)] if known else [], ei)

    def _transfer_error(self, failure: Failure) -> HcclError:
        """The sender's statement comes first; each names the other's rank in the place of a root."""
        sent, received = failure.statements
        sides = statement(received[ROOT], *sent), statement(sent[ROOT], *received)
        refused = [said.rank for said in sides if said.refusal is not None]
        text = disagreement.describe_transfer(*sides, self.rank, self.name, self._members)
        return HcclError(code_of(sides), text, refused, "EI0003" if refused else "EI0005")

    def _where(self) -> str:
        return call_site()

    def _site(self) -> tuple[CodeType | None, int]:
        return instruction()

    def _fence_if_quiescing(self) -> None:
        """A stopped peer that has committed could store into our memory when it goes on: the server must end it."""
        self._membership.look()
        *_, quiescing = self._now()
        if quiescing >= 0:
            self._membership.fence(quiescing)

    def _attend(self, seconds: float) -> None:
        """Between two sleeps of a long wait: fences a stopped peer, says that ranks disagree already."""
        self._fence_if_quiescing()
        if seconds > NOTICE_AFTER_S and not self._noticed and self._differs_so_far():
            self._noticed = True
            collective, call, _ = self._now()
            waits_for = self._membership.segment.rank_line(self._membership.rank).waits_for
            awaited, own = (failure_words.rank_name(rank, self._members) for rank in (waits_for, self._membership.rank))
            print(
                f"{own}: the ranks disagree on {collective_name(collective)} #{call} already; waiting for "
                f"the call of {awaited} to tell the whole story",
                file=sys.stderr,
                flush=True,
            )


_by_id: "weakref.WeakValueDictionary[int, Communicator]" = weakref.WeakValueDictionary()


def kernels_for(word: str) -> int:
    """The number by which the core knows the kernels that ASCEND_RT_KERNELS asks for; -1: the fastest.

    Raises SettingError (EI0001) for kernels that this processor does not run.
    """
    if word == "auto":
        return -1
    if not _core.has_kernels(KERNELS[word]):
        runs = ", ".join(name for name, number in KERNELS.items() if _core.has_kernels(number))
        raise SettingError("ASCEND_RT_KERNELS", repr(word), f"auto, or kernels that this processor runs: {runs}")
    return KERNELS[word]


def error_of(failure: Failure) -> Exception:
    """The error of a call that failed on a stream."""
    communicator = _by_id.get(failure.communicator)
    if communicator is None:
        text = f"a collective queued at {failure.where} failed, and its communicator is gone"
        return HcclError(HcclResult.HCCL_E_REMOTE, text)
    return communicator._error(failure)


def live() -> "list[Communicator]":
    """The communicators of this process that somebody refers to."""
    return list(_by_id.values())


def attend() -> None:
    """While a stream is waited for: whatever communicator its calls are of."""
    for communicator in live():
        communicator._fence_if_quiescing()


recorded.defer_calls_of(live)
Stream.explain = staticmethod(error_of)
Stream.attend = staticmethod(attend)
