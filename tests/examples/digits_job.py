"""A rank of the job that test_train_digits.py starts: trains, and rank 0 saves what all ranks ended with.

Usage: digits_job.py EPOCHS FILE stream|blocking
"""

import sys

import numpy as np
from threadpoolctl import threadpool_limits

import ascend_rt as rt
from ascend_rt.examples import train_digits

threadpool_limits(1, user_api="blas")
comm = rt.init()
training, _ = train_digits.load()
stream = rt.Stream() if sys.argv[3] == "stream" else None
outcome = train_digits.train(comm, training, train_digits.batches(training, int(sys.argv[1])), stream)
weights = comm.all_gather(outcome.weights)
losses = comm.all_gather(rt.array(np.array(outcome.losses, np.float32)))
if comm.rank == 0:
    np.savez(sys.argv[2], weights=weights, losses=losses)
rt.finalize()
