"""Numbers kept apart: each as near to where it is wanted as the distances between neighbours allow."""

from collections.abc import Sequence


def spread(wanted: Sequence[float], weights: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Places in the given order, the least weighted squares away from `wanted`.

    `distances[i]` is the least distance between place `i` and the one before it (the first is not looked at).
    Without the distances this is isotonic regression, solved exactly by pooling adjacent violators.
    """
    offsets: list[float] = []
    offset = 0.0
    blocks: list[tuple[float, float, int]] = []
    for want, weight, distance in zip(wanted, weights, distances, strict=True):
        offset += distance if offsets else 0.0
        offsets.append(offset)
        moment, mass, count = (want - offset) * weight, weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > moment / mass:
            more_moment, more_mass, more = blocks.pop()
            moment, mass, count = moment + more_moment, mass + more_mass, count + more
        blocks.append((moment, mass, count))
    means = [moment / mass for moment, mass, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
