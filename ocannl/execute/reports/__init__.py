"""Reports of compiled routines and their runs: tables, texts, traces and timelines."""
