"""How much memory a cell will need on a device, before any device is touched."""
