"""How workers are woken. A bus is only a hint: the log says what there is to do."""
