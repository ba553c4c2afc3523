"""The cases, one module for each group of the inventory; importing a module declares its cases."""
