"""Trains what does not fit on one device, with nothing added to the cell: START HERE.

units.py   how a module of a model is named, so that a trial run and the run itself mean the same one
seen.py    what a trial run notes of a model's modules: what each hands on, and why it must not run twice
plan.py    which plan fits: facts of a trial run in, trial runs asked for, a plan and refusals out; pure
ladder.py  the rungs in the order of their cost, and a plan put around a run
rungs/     one file a rung: docs/a-new-rung.md says how another is added; pager.py keeps tensors on the host for two

A rung is put around the cell's run. The same code is put around a trial run, so that what it takes is predicted by the
replay of what happened there, and by no formula of the rung's own.
"""
