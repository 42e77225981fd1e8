"""Compiled graphs of all ranks in one file, `.om`: see docs/atc.md.

errors      ModelFileError: why a file is not taken
header      the container: 256 bytes of header, a table of partitions, checksum
fields      which fields the JSON of a partition has
model       Model: what is in it; write, read
load        load: this rank's graph, over memory and communicators
"""
