"""Kill campaigns use the cluster of tests/cluster."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
