"""How the memory of a graph is to be planned."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryOptions:
    """How memory is planned; beside each field GE's option."""

    reuse: bool = True
    """ge.exec.disableReuseMemory = 0"""
    no_reuse: tuple[str, ...] = ()
    """OP_NO_REUSE_MEM: buffers that share memory with none"""
    input_reuse: tuple[str, ...] = ()
    """ge.exec.inputReuseMemIndexes: inputs to be placed too, whose bytes are free after their last use. The program
    fills them where they are placed, before each launch"""
    output_reuse: tuple[str, ...] = ()
    """ge.exec.outputReuseMemIndexes: outputs to be placed too, whose bytes are free before their first use. The program
    reads them where they are placed, before the next launch"""
    in_place: bool = True
    """results take over the place of arguments that are used no more"""
    side_by_side: tuple[tuple[str, ...], ...] = ()
    """buffers that lie one behind another, each at a multiple of the alignment"""
    in_turn: bool = True
    """ge.exec.staticMemoryPolicy = 2: where no memory was asked for, the graph lies in the block in which the graphs
    that are launched on one stream take turns; False (0): in a block of its own"""
    effort: int = 1
    """placement.place"""

    @property
    def takes_turns(self) -> bool:
        """Whether other graphs may have the same bytes: nothing in them is the program's, or to be left alone."""
        kept = self.no_reuse or self.input_reuse or self.output_reuse
        return self.in_turn and self.reuse and not kept
