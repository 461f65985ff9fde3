"""A bare FastAPI server with a model behind it, as people write them: what bench/deploy.py compares with."""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[3])
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
shape = [1, *session.get_inputs()[0].shape[1:]]
app = FastAPI()


@app.post("/")
async def answer(request: Request) -> Response:
    x = np.frombuffer(await request.body(), np.float32).reshape(shape)
    [y] = await run_in_threadpool(session.run, None, {session.get_inputs()[0].name: x})
    return Response(y.tobytes())


uvicorn.run(app, uds=sys.argv[2], log_level="error")
