"""Who can reach whom: the job's memory, the rendezvous and the membership."""
