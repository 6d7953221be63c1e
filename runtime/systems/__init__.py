"""What OCANNL asks the operating system, by a table of systems."""
