"""Stored histories: read from files of JSON and JSON lines, judged, mended, and written back as they were."""
