/** Asks the server extension. Keys are those of Python: `server.py` sends what `status.py` and `devices.py` name. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

export interface Process {
  pid: number;
  user: string;
  bytes: number | null; // null: the driver does not say
}

export interface Device {
  uuid: string;
  label: string; // what people type: "0", "cpu:0"
  name: string;
  kind: 'gpu' | 'mig' | 'slot';
  total: number; // bytes
  free: number; // bytes
  reserved: number; // bytes the driver keeps for itself
  processes: Process[];
  utilisation: number | null; // percent
  temperature: number | null; // °C
  problem: string; // empty: it is healthy
}

export interface Job {
  id: string;
  name: string;
  state: string; // as `State` in job.py
  reason: string; // why it waits, or how it ended
  since: number; // of this state; seconds since 1970
  device: string; // empty: none yet
  step: number;
}

export interface Status {
  version: string;
  devices: Device[];
  jobs: Job[];
  problem: string; // why something is not shown; empty: all of it is
  time: number; // of this reading; seconds since 1970
}

const PATIENCE = 15_000; // ms; the server itself answers within 5 s, whatever the devices do

/** Read everything the panel shows; throws an Error whose message tells the reader what to do. */
export async function fetchStatus(
  settings: ServerConnection.ISettings
): Promise<Status> {
  const response = await ask('status', settings);
  if (!response.ok) {
    throw new Error(explain(response));
  }
  return (await response.json()) as Status;
}

async function ask(
  what: string,
  settings: ServerConnection.ISettings
): Promise<Response> {
  const url = URLExt.join(settings.baseUrl, 'jupyter-gpufit', 'api', what);
  const init = { signal: AbortSignal.timeout(PATIENCE) };
  try {
    return await ServerConnection.makeRequest(url, init, settings);
  } catch {
    throw new Error(
      'The Jupyter server does not answer. Check that it still runs; the panel goes on asking.'
    );
  }
}

function explain(response: Response): string {
  switch (response.status) {
    case 401:
    case 403:
      return 'The Jupyter server does not let you read the devices. Sign in again, or ask its administrator for access.';
    case 404:
      return (
        'The Jupyter server runs without the server extension of jupyter_gpufit. ' +
        'Install jupyter_gpufit in the environment of the server, run ' +
        '`jupyter server extension enable jupyter_gpufit` there, and restart it.'
      );
    default:
      return `The server extension of jupyter_gpufit failed (${response.status} ${response.statusText}). The log of the Jupyter server says why.`;
  }
}
