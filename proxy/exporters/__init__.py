"""Where records go: each exporter is one file, given whole records; the store keeps the engines' own means too."""
