"""From a layout to a topology: steps, ways, assembly."""
