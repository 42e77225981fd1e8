"""What `import hccl` finds under hccl-run --acl. From here on the name means ascend_rt.hccl."""

import sys

from ascend_rt import hccl
from ascend_rt.hccl import manage, split
from ascend_rt.hccl.manage import api as manage_api
from ascend_rt.hccl.split import api as split_api

if __name__ == "hccl":
    sys.modules.update({"hccl": hccl, "hccl.manage": manage, "hccl.manage.api": manage_api})
    sys.modules.update({"hccl.split": split, "hccl.split.api": split_api})
