"""For jupyterhub-idle-culler 2.0 or later: a server whose user's jobs wait or compute is not stopped."""

from jupyter_gpufit.hub.culler import cull_arbiter

c = get_config()  # noqa: F821 - the culler gives it

c.IdleCuller.cull_arbiter_hook = cull_arbiter
