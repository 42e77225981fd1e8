"""What `import acl` finds under hccl-run --acl. From here on the name means ascend_rt.acl."""

import sys
from types import ModuleType

from ascend_rt import acl
from ascend_rt.acl import rt, util


def find_mdl() -> ModuleType:
    """acl.mdl, which most programs do not need: it takes the graph engine."""
    from ascend_rt.ge import mdl

    return mdl


if __name__ == "acl":
    sys.modules.update({"acl": acl, "acl.rt": rt, "acl.util": util})
    acl._bring("mdl", find_mdl)
