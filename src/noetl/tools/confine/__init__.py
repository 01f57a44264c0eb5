"""Confinement: what the process of a task cannot do, kept by the kernel, for itself and all that it starts."""

#: how a process ends that could not be confined as it was to be, and what stands in front of the reason
REFUSED, REASON = 125, "the task could not be confined: "
