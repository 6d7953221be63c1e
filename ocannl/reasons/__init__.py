"""Why a compiled program is as it is: the memory of its nodes, what waits for what, and its schedules."""
