"""A folder for the search path of programs: hccl-run --acl adds it, and `import acl` finds acl.py in it."""
