"""`python -m jupyter_gpufit`: the command `gpufit`, where its script is not on the path."""

from .terminal.cli import main

if __name__ == "__main__":
    main()
