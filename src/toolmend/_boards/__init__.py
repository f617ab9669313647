"""The Grafana boards and Prometheus rules that come with toolmend: found, written out, read and checked."""
