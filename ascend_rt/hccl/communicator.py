"""Communicator: the collectives of one rank, as they look from Python.

The native base runs a call that is plainly right without coming here (core/binding_communicator.c). What comes here is
policy: the first call of a kind, whose algorithm has to be chosen; arguments that need a look; and failures.
"""

import sys
from typing import Any, NoReturn

import numpy as np

from ..acl.memory import Array, DeviceMemory
from ..core import _core
from ..diag import disagreement, failure
from ..diag.call_site import call_site
from ..diag.vocabulary import AbortKind, collective_name, split_abort_word
from ..link.limits import usable_cpus
from ..link.rendezvous import Membership
from ..plan.choice import TABLE, Table
from ..plan.collectives import COLLECTIVES, Collective
from ..settings import Settings
from . import choices, staging
from .arguments import Call, RefusedError, check
from .errors import HcclError, HcclResult
from .types import DTYPES, NUMBER_OF_DTYPE, OP_NAMES

SPECS = {spec.number: spec for spec in COLLECTIVES.values()}
KERNELS = {"auto": -1, "plain": _core.KERNEL_PLAIN, "avx2": _core.KERNEL_AVX2}
NOTICE_AFTER_S = 1.0
SPINS = 100

CODES = {
    AbortKind.TIMEOUT: (HcclResult.HCCL_E_TIMEOUT, "EI0002"),
    AbortKind.DEATH: (HcclResult.HCCL_E_REMOTE, ""),
    AbortKind.LEFT: (HcclResult.HCCL_E_REMOTE, ""),
    AbortKind.INTERRUPT: (HcclResult.HCCL_E_REMOTE, ""),
    AbortKind.OVERRUN: (HcclResult.HCCL_E_INTERNAL, ""),
}


class Communicator(_core.Communicator):
    """All ranks of a job, which call the same collectives in the same order.

    Every method blocks until the call is done on this rank, and returns its result array. Arrays are NumPy arrays:
    those of rt.empty, rt.zeros and rt.array lie in device memory and are used where they are; any other array, and any
    that is not contiguous, is copied into device memory and back. Counts may be 0. A failure is an HcclError that all
    ranks raise: after a disagreement or a wrong argument nothing has moved and the communicator works on; after a
    death, a timeout or an interrupt it has ended.

    rank, size      of this communicator
    name            "world"
    """

    rank: int
    size: int
    name: str
    _table: Table

    def __new__(cls, membership: Membership, memory: DeviceMemory, settings: Settings) -> "Communicator":
        self = super().__new__(
            cls, membership.segment, memory.device, membership.rank, membership.size, NUMBER_OF_DTYPE
        )
        self._tune(
            _spins(settings.ascend_rt_spin, membership.size),
            settings.ascend_rt_yields,
            settings.ascend_rt_sleep_ms * 1_000_000,
            settings.hccl_exec_timeout * 1_000_000_000,
            KERNELS[settings.ascend_rt_kernels],
        )
        return self

    def __init__(self, membership: Membership, memory: DeviceMemory, settings: Settings) -> None:
        self.rank, self.size, self.name = membership.rank, membership.size, "world"
        self._membership, self._memory = membership, memory
        self._timeout = settings.hccl_exec_timeout
        self._noticed = False
        self._table = TABLE

    def __repr__(self) -> str:
        return f"<Communicator {self.name!r}: rank {self.rank} of {self.size}>"

    def all_gather(self, x: Array, out: Array | None = None, stream: None = None) -> Array:
        """Every rank's x, one behind another in rank order, on every rank.

        x: any shape. out: (size, *x.shape), made in the kind of memory of x when not given; in place, x is out[rank].
        """
        return self._run(COLLECTIVES["all_gather"], x, out, "sum", 0, stream)

    def reduce_scatter(self, x: Array, out: Array | None = None, op: str = "sum", stream: None = None) -> Array:
        """Fold x over all ranks; each rank gets its own block of the result.

        x: (size * k, ...). out: (k, ...), made in the kind of memory of x when not given; in place, out is block `rank`
        of x. op: sum, prod, max, min or avg; see all_reduce.
        """
        return self._run(COLLECTIVES["reduce_scatter"], x, out, op, 0, stream)

    def destroy(self) -> None:
        """This rank uses the communicator no more. Waits for nobody; calling it again does nothing."""
        self._close()

    # ---- what the native base hands over ----

    def _all_reduce(self, x: Any, out: Any, op: Any, stream: Any) -> Array:
        return self._run(COLLECTIVES["all_reduce"], x, out, op, 0, stream)

    def _broadcast(self, x: Any, root: Any, stream: Any) -> Array:
        return self._run(COLLECTIVES["broadcast"], x, None, "sum", root, stream)

    def _barrier(self, stream: Any) -> None:
        nothing = np.empty(0, np.int8)
        self._run(COLLECTIVES["barrier"], nothing, nothing, "sum", 0, stream)

    def _run(self, spec: Collective, x: Any, out: Any, op: Any, root: Any, stream: Any) -> Array:
        try:
            if stream is not None:
                raise RefusedError("streams are not there yet; expected stream=None", HcclResult.HCCL_E_NOT_SUPPORT)
            call = check(spec, self.rank, self.size, x, out, op, root, self._make_result)
            how = self._attempt(call)
        except RefusedError as refused:
            self._refuse_call(spec, str(refused))
        except MemoryError as error:
            self._refuse_call(spec, str(error))
        if how != _core.CALL_DONE:
            self._fail(how)
        return call.out

    def _attempt(self, call: Call) -> int:
        """Runs a call. Whatever is missing for it is made first; until then nothing is said to anybody."""
        if not (call.x.flags.c_contiguous and call.out.flags.c_contiguous):
            return staging.run(self._attempt, call, self._memory)
        while True:
            how = self._call(call.spec.number, call.dtype, call.op, call.root, call.count, call.x, call.out)
            if how == _core.CALL_NO_CHOICE:
                choices.add(self, call, self._table)
            elif how == _core.CALL_NO_SCRATCH:
                self._make_scratch(call)
            elif how == _core.CALL_NOT_DEVICE_MEMORY:
                return staging.run(self._attempt, call, self._memory)
            else:
                return how

    def _make_result(self, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", like: Array) -> Array:
        device = like.flags.c_contiguous and self._memory.holds(like)
        return self._memory.empty(shape, dtype) if device else np.empty(shape, dtype)

    def _make_scratch(self, call: Call) -> None:
        nbytes = self._scratch_needed(call.spec.number, call.dtype, call.op, call.root, call.count)
        block = self._memory.allocate(nbytes)
        self._set_scratch(block, block.offset, nbytes)

    # ---- failures ----

    def _refuse_call(self, spec: Collective, why: str) -> NoReturn:
        self._fail(self._refuse(spec.number, why))

    def _fail(self, how: int) -> NoReturn:
        """Raises what all ranks raise."""
        if how == _core.CALL_DIFFERS:
            raise self._disagreement()
        raise self._ending()

    def _disagreement(self) -> HcclError:
        lines = self._lines()
        told = self._tell(0, call_site()) != _core.CALL_ABORTED
        places = [line.note for line in self._lines()] if told else [""] * self.size
        statements = [_statement(rank, line, places[rank]) for rank, line in enumerate(lines)]
        refused = [said.rank for said in statements if said.refusal is not None]
        text = disagreement.describe(statements, self.rank, self.name)
        return HcclError(HcclResult.HCCL_E_PARA, text, refused, "EI0003" if refused else "EI0005")

    def _ending(self) -> HcclError:
        word = self._abort_word()
        kind, culprit, _ = split_abort_word(word)
        code, ei = CODES[kind]
        doing = f'{self._latest_call()} of group "{self.name}"'
        text = failure.describe(word, self._membership.segment, self.rank, doing, self._timeout or None)
        return HcclError(code, text, [culprit], ei)

    def _latest_call(self) -> str:
        counters = self._statistics()
        return f"{collective_name(counters['collective'])} #{counters['calls']}"

    def _attend(self, seconds: float, differs: int, quiescing: int) -> None:
        """Between two sleeps of a long wait: fences a stopped peer, says that ranks disagree already."""
        waits_for = self._membership.segment.rank_line(self.rank).waits_for
        if quiescing and waits_for >= 0:
            self._membership.fence(waits_for)
        elif differs and seconds > NOTICE_AFTER_S and not self._noticed:
            self._noticed = True
            print(
                f"rank {self.rank}: the ranks disagree on {self._latest_call()} already; waiting for the call of rank "
                f"{waits_for} to tell the whole story",
                file=sys.stderr,
                flush=True,
            )


def _spins(setting: int | None, size: int) -> int:
    """Pauses before the first yield. Where ranks share cores, the peer cannot arrive before its waiter yields: 8 bytes
    at 8 ranks on 2 cores take 5 us without a pause and 13 to 18 us after 100 of them."""
    return setting if setting is not None else SPINS if size <= usable_cpus() else 0


def _statement(rank: int, line: _core.Line, where: str) -> disagreement.Statement:
    spec = SPECS.get(line.collective)
    refused = bool(line.flags & _core.LINE_REFUSED)
    carries_data = spec is not None and spec.name != "barrier"
    return disagreement.Statement(
        rank=rank,
        call=line.call,
        collective=spec.name if spec else f"collective {line.collective}",
        count=line.count,
        dtype=str(DTYPES[line.dtype]) if carries_data and not refused else "",  # type: ignore[index]
        op=OP_NAMES[line.op] if spec is not None and spec.reduces else None,
        root=line.root if spec is not None and spec.rooted else None,
        fingerprint=line.fingerprint,
        refusal=line.note if refused else None,
        where=where,
    )
