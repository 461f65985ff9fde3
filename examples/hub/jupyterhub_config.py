"""JupyterHub for a lab whose users are Unix users of this machine, with jupyter_gpufit's page and an idle culler.

    cd /etc/jupyterhub && sudo /opt/gpufit/bin/jupyterhub -f /etc/jupyterhub/jupyterhub_config.py

Users sign in with their Unix passwords. What you will want to change: the administrators, and the address.
"""

import os
import sys

c = get_config()  # noqa: F821 - JupyterHub gives it

bin = os.path.dirname(sys.executable)
os.environ["PATH"] = f"{bin}:{os.environ['PATH']}"  # configurable-http-proxy may lie there, too

c.JupyterHub.bind_url = os.environ.get("GPUFIT_HUB_BIND", "http://127.0.0.1:8000")  # behind a web server with TLS
c.Authenticator.allow_all = True  # everybody who has an account here
c.Authenticator.admin_users = set(filter(None, os.environ.get("GPUFIT_HUB_ADMINS", "").split(",")))
c.Spawner.cmd = [f"{bin}/jupyterhub-singleuser"]
c.Spawner.default_url = "/lab"

c.JupyterHub.services = [
    {
        "name": "gpufit",
        "url": os.environ.get("GPUFIT_HUB_SERVICE", "http://127.0.0.1:10101"),
        "command": [sys.executable, "-m", "jupyter_gpufit.hub.service"],
        "oauth_no_confirm": True,
        # Without GPUFIT_* of its own, the service reads what every user's server reads.
        "environment": {name: value for name, value in os.environ.items() if name.startswith("GPUFIT_")},
    },
    {
        "name": "idle-culler",
        "command": [
            *(sys.executable, "-m", "jupyterhub_idle_culler"),
            f"--timeout={os.environ.get('GPUFIT_HUB_IDLE', '3600')}",  # seconds
            f"--config={os.path.join(os.path.dirname(os.path.abspath(__file__)), 'idle_culler_config.py')}",
        ],
    },
]
c.JupyterHub.load_roles = [
    {"name": "user", "scopes": ["self", "access:services!service=gpufit"]},
    {"name": "server", "scopes": ["inherit", "access:services!service=gpufit"]},
    {
        "name": "idle-culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle-culler"],
    },
]

# For Prometheus: a token of its own, which opens the figures and nothing else.
if token := os.environ.get("GPUFIT_PROMETHEUS_TOKEN"):
    c.JupyterHub.services.append({"name": "prometheus", "api_token": token})
    c.JupyterHub.load_roles.append(
        {"name": "prometheus", "scopes": ["access:services!service=gpufit"], "services": ["prometheus"]}
    )
