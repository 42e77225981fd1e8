"""How a collective is done, as data: the step language, what each collective means, the algorithms and their proof."""

from . import algorithms as _algorithms  # noqa: F401  registers every algorithm
from .builder import Builder
from .choice import Choice, Row, choose
from .chunks import alignment, chunk_span, chunk_start, scratch_stride
from .collectives import COLLECTIVES, Blocks, Collective, InPlace
from .grammar import check
from .language import Buffer, Copy, Groups, Option, Plan, PlanError, Post, Reduce, Ref, Wait
from .packed import fingerprint, pack, single_fold
from .registry import algorithm, build, build_all, listing, names

__all__ = [
    "COLLECTIVES",
    "Blocks",
    "Buffer",
    "Builder",
    "Choice",
    "Collective",
    "Copy",
    "Groups",
    "InPlace",
    "Option",
    "Plan",
    "PlanError",
    "Post",
    "Reduce",
    "Ref",
    "Row",
    "Wait",
    "algorithm",
    "alignment",
    "build",
    "build_all",
    "check",
    "choose",
    "chunk_span",
    "chunk_start",
    "fingerprint",
    "listing",
    "names",
    "pack",
    "scratch_stride",
    "single_fold",
]
