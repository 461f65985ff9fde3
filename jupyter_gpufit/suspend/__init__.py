"""The driver-level suspend: a released training's process stays, its CUDA state in the host's memory, off the device.

It is a fast path after the durable checkpoint and never instead of it: whatever goes wrong here, the disk has the job.
Off by default (setting `driver_suspend`): no GPU has run it yet.

driver.py    a process that asks the driver, and what it is told      __main__.py  that process
decide.py    whether, and the way back (pure)
waking.py    a front's side: have the suspended worker go on, or end it
../worker/rest.py    the worker's side
"""
