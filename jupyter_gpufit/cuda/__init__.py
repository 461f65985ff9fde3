"""`cuda` means something else here: in a notebook's kernel (notebook/)."""
