"""Plans of many queries chosen together: what they have in common is paid for once."""
