"""The Ascend distributed runtime on ordinary CPUs."""
