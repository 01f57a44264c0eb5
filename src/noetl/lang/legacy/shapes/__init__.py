"""The shape of what was read: readers of results in the shapes of older engines, and what they are given today."""

from noetl.lang.legacy.shapes.shape_lowering import lower

__all__ = ["lower"]
