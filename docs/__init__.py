"""The documentation, and the code that writes pages of it."""
