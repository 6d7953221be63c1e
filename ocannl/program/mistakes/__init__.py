"""Messages about typical mistakes, and about names and functions of other frameworks."""
