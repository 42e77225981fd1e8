"""What passes go by."""

from dataclasses import dataclass, field

from ..costs import Costs
from ..options import Options
from .agreement import Agree, alike


@dataclass(frozen=True)
class Terms:
    """What passes go by: what tasks cost, what all ranks know, and the options."""

    costs: Costs = field(default_factory=Costs)
    agree: Agree = alike
    options: Options = field(default_factory=Options)
