"""The data plane: runs pipelines with real tools and reports."""
