"""The device runtime: one file per noun (device memory, later device, context, stream, event)."""
