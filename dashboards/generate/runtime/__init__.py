"""The board *Tool runtime*."""
