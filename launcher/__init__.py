"""hccl-run: starts, watches and explains a job."""
