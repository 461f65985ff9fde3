"""A model as it is deployed: an ONNX file taken, its signature, what it will need; and a torch module made into one.

file        is this an ONNX file at all: a few bytes of it tell (pure, but for the reading)
packages    what is installed for it, and what to install
signature   what a model is called with and answers (pure)
made        inputs that nobody gave, to try a model with
liveness    which of its values are alive together (pure)
need        the bytes that it will take (pure)
sizes       how large the values of a graph are
taken       what is known of a model that was taken, as JSON
taking      the whole of an ONNX file, checked; in a process of its own (`python -m jupyter_gpufit.models`)
shell       a model apart from its weights, for several on one device
asking      the front's side of that process
weighted    a module with the weights of a .safetensors file
export      a torch module as an ONNX file; the only one here that imports torch
"""
