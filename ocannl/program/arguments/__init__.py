"""Arguments that users give: arrays, numbers, trees of them, and their errors."""
