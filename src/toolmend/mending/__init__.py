"""The pure core: what is wrong with a history, and what to do about it. No I/O, clock or randomness."""
