"""The pass `fuse-rows`."""
