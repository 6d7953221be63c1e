"""Rewrites inside one dialect, in folders by the dialect, and the analyses and rewrites that they share."""
