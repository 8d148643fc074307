"""A second implementation of the simulator and the schedulers, for tests only.

It was written from the rules alone, without sight of the code under test. It is plain
and slow on purpose: lists that are sorted anew each time, exact fractions, one heap.
"""
