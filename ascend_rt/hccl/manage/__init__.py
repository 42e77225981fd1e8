"""hccl.manage of CANN: see api."""
