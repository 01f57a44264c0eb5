"""The vocabulary: frozen data, no behaviour, no IO."""
