"""The graphs of all ranks beside one another: whether they fit together, before any of them runs.

finding    what is wrong, and where: ranks, nodes, lines
check      check_ranks: all findings
calls      collectives of a communicator: order and arguments
messages   what is sent and received
waiting    who waits for whom: cycles over streams, events and communicators
agree      the ranks of a running job compare their graphs: skeleton, what they tell; texts, how
"""
