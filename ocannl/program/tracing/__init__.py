"""Functions that are traced several times: the memory and random numbers that their traces share."""
