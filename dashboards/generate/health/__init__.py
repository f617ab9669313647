"""The board *Tool-call health*."""
