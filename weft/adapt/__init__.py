"""Plans that follow the data: measure an epoch, decide in the next, switch with the one after."""
