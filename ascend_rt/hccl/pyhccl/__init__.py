"""A folder in which `import hccl` finds what leads to ascend_rt.hccl, as ge/pyacl does for `import acl`."""
