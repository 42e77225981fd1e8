"""hccl-run -n N -m ascend_rt.ge.kernel_times STEP.om TIMES.json: what the kernels of an .om take, for hccl-atc.

Every rank loads its graph and calls its kernels, all ranks at the same time, with zeros for inputs. Communication of
the graph does not run; over emulated links small calls are made beside the kernels, to see how late they end. A program
whose kernels take other times with data of its own measures them itself: see costs_file.
"""

import sys

from ..hccl.world import finalize, init
from .costs_file import write_costs
from .measure import measured
from .om.load import load

USAGE = "hccl-run -n N -m ascend_rt.ge.kernel_times STEP.om TIMES.json"


def main() -> None:
    """What every rank runs. ModelFileError: it is no .om for these ranks."""
    if len(sys.argv) != 3:
        raise SystemExit(f"usage: {USAGE}")
    communicator = init()
    graph = load(sys.argv[1], communicator)
    communicator.barrier()
    costs = measured(graph)
    write_costs(sys.argv[2], graph, costs, communicator)
    if communicator.rank == 0:
        slowest = sum(costs.kernels.values())
        print(f"{sys.argv[2]}: {len(costs.kernels)} kernels of rank 0 take {slowest:.0f} us")
    finalize()


if __name__ == "__main__":
    main()
