"""`python -m jupyter_gpufit.deploy`: the process of a job that is a deployed model."""

from .child import main

main()
