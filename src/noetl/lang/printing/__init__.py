"""Text out: nodes printed with unchanged text kept byte for byte, plain values as YAML, and diagnostics."""
