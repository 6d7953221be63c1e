"""Texts about programs: tables, HTML, and what expressions without a name are called."""
