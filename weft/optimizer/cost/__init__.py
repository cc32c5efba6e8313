"""What plans cost: estimates, the model of the papers, the one of the host, and its prices."""
