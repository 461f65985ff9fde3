"""`cuda` in a notebook's kernel is a stand-in: START HERE.

A kernel holds no device, and the cells before a training put their models on `cuda` all the same. So after
%load_ext, `cuda` there means memory of the host with a note on it (devices/sides.py); torch.cuda answers as the device
that a training would get. What carries the note arrives on that device in the worker, and comes back with it.

kernel.py    begins when torch is imported, ends with %unload_ext; whether the kernel has a context of its own
hook.py      tells when torch is imported, which we do not do ourselves
expected.py  the device that a training would get, and what is on the stand-in now
answers.py   what torch.cuda answers there
others.py    other libraries of the kernel, and programs that its cells start, see no GPU

What is not shown: how fast a GPU is, and what fits on one.
"""

from __future__ import annotations

from .kernel import KernelCuda

__all__ = ["KernelCuda"]
