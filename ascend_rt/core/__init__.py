"""The only native code: runs one plan, moves bytes, reduces, waits."""
