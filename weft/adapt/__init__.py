"""Plans that follow the data: measure an epoch, decide in the next, switch with the one after.

the loop           adaptation, length, settled
what is measured   gathering, measure, hops, agreement, reconcile
what is decided    decide
"""
