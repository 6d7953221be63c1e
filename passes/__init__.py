"""Rewrites inside one dialect, in folders by the dialect, and what several of them share."""
