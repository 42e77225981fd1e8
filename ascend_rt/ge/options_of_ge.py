"""GE's keys that nothing goes by: those that say nothing of what is done here, and those that ask for what is not."""

from typing import NamedTuple


class NotDone(NamedTuple):
    """A key that asks for something: the texts by which it asks for nothing, and what to do instead."""

    usual: tuple[str, ...]
    instead: str


_CLUSTER = (
    "ge.exec.rankTableFile",
    "ge.exec.rankId",
    "ge.exec.rankTable",
    "ge.exec.rankMap",
    "ge.exec.podName",
    "ge.exec.jobId",
    "ge.exec.isUseHcom",
    "ge.exec.hcclFlag",
    "ge.exec.deployMode",
    "ge.exec.hcomGrouplist",
    "ge.exec.hcomGrouplistV2",
    "ge.exec.globalHcclCommConfig",
    "ge.hccl_sub_comm_config",
    "ge.offline_hccl_compile",
)
_MADE = "communicators are made by the program, and a graph has those of its capture"
_DEVICE = "a graph runs on the device of the stream on which it is launched"
_STREAMS = "the overlap pass puts calls on streams, kernels stay on those of the capture"
_CACHE = "nothing is cached between runs; hccl-atc compiles ahead of time"

MEANINGLESS = {
    "ge.graphRunMode": "graphs of training and of inference are compiled alike",
    "ge.exec.deviceId": _DEVICE,
    "ge.session_device_id": _DEVICE,
    **dict.fromkeys(_CLUSTER, _MADE),
    "ge.hcomMultiMode": "calls of a communicator run one after another",
    "ge.exec.isTailingOptimization": "calls of a communicator keep their order",
    "ge.exec.hccl_tailing_optimize": "there are no conversions of formats behind a call",
    "ge.streamNum": _STREAMS,
    "ac_parallel_enable": _STREAMS,
    "ge.event": "streams wait for one another by events of the graph, of which there is no number to run out of",
    "ge.exec.graphIOMemAllocMode": "inputs and outputs are the program's; ge.exec.inputReuseMemIndexes has them placed",
    "ge.featureBaseRefreshable": "Graph.rebind has any buffer of the program lie elsewhere",
    "ge.exec.frozenInputIndexes": "no input is looked at again at a launch; Graph.rebind says what has moved",
    "ge.exec.input_fusion_size": "inputs are used where they lie",
    "ge.exec.atomicCleanPolicy": "buckets have no gaps that would have to be cleared",
    "ge.constLifecycle": "constants live as long as their graph",
    "ge.variableUse1gHugePage": "pages are the operating system's",
    "ge.variableMemoryMaxSize": "what the program holds is bounded by hccl-run --hbm",
    "ge.graph_compiler_cache_dir": _CACHE,
    "ge.graph_key": _CACHE,
    "ge.graphMaxParallelModelNum": "any number of graphs is launched at once",
}
"""By key, why it means nothing here."""

_TIMEOUT = "HCCL_EXEC_TIMEOUT in the environment bounds every call"

NOT_DONE = {
    "ge.exec.hcclExecuteTimeOut": NotDone((), _TIMEOUT),
    "ge.exec.graphExecTimeout": NotDone((), _TIMEOUT),
    "stream_sync_timeout": NotDone((), "stream.synchronize takes a timeout"),
    "event_sync_timeout": NotDone((), "event.synchronize takes a timeout"),
    "ge.autoMultistreamParallelMode": NotDone(("",), "kernels that are to run at once are captured on several streams"),
    "ge.exec.outputReuseInputMemIndexes": NotDone(("",), "capture the same array as input and as output"),
    "ge.exec.reuseZeroCopyMemory": NotDone(("0",), "ge.exec.inputReuseMemIndexes and outputReuseMemIndexes say which"),
    "ge.swapSpaceNodes": NotDone(("",), "ge.recompute saves memory"),
    "ge.externalWeight": NotDone(("0",), "an .om holds its constants"),
    "ge.externalWeightDir": NotDone(("",), "an .om holds its constants"),
}
"""By key, what it takes."""
