"""The pass `distribute-scans` and its parts: what leaves the bodies of scans, and how."""
