"""From statements to a module, and the text of it at each stage of its compilation."""
