"""Compiled graphs of all ranks in one file, `.om`: see docs/atc.md.

errors      ModelFileError: why a file is not taken
header      the container: 256 bytes of header, a table of partitions, checksum
fields      which fields the JSON of a partition has
kernels     what kernels were when they were compiled, and what they are
identity    Identity: what an .om was made from and by, and whether that still holds
model       Model: what is in it; write, read
load        load: this rank's graph, over memory and communicators
"""
