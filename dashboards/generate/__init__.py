"""Boards and rules as code: `python -m dashboards.generate` writes the files beside this folder."""
