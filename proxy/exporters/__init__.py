"""Where records go: each exporter is one file, given whole records and nothing else."""
