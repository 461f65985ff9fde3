"""Calling a deployed model: what is said, the shared memory in which its tensors lie, and who calls.

A call's tensors are written once, by whoever calls, into memory that the model's process maps; what goes over the
socket is where they lie. So a call costs a copy in, a copy out and two messages, however large its tensors are.
"""
