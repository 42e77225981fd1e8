"""What `import acl` finds under hccl-run --acl. From here on the name means ascend_rt.acl."""

import sys

from ascend_rt import acl
from ascend_rt.acl import rt, util

if __name__ == "acl":
    sys.modules.update({"acl": acl, "acl.rt": rt, "acl.util": util})
