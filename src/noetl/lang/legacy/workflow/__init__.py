"""Steps of an older document: bodies, tasks, loops, rules, results and arcs."""
