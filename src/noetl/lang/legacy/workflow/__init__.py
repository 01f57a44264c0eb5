"""Steps of an older document: bodies, task keys, rules and writes, retries, published results, arcs."""
