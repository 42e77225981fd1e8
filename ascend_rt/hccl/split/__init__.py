"""hccl.split of CANN: see api."""
