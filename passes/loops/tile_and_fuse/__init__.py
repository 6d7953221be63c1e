"""The pass `tile-and-fuse`."""
