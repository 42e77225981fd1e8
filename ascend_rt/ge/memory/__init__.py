"""Where the buffers of a graph lie in device memory, found before it runs: see docs/memory.md.

plan         plan_memory, MemoryPlan: for a graph; allocate, share: memory for it
lifetimes    what may share bytes, by the order of streams and events
placement    offsets: arithmetic that knows of no graph; first_fit, bound and search belong to it
picture      time x address
"""
