/** Asks the server extension. Every type is generated from Python, in schema.ts. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { Curves, RunFacts, Journal, Status, Verb } from '../words/schema';

export type Span = 'whole' | 'latest';

const PATIENCE = 8_000; // ms; the server itself answers within 5 s, whatever the devices do
const SILENT =
  'The Jupyter server does not answer. Check that it still runs; the panel goes on asking.';
// A button is not pressed a second time by itself: the first press may have arrived.
const UNKNOWN =
  'The Jupyter server does not answer, so whether it heard this is not known. Look at the state before you press again.';

/** The server's own refusal, or that there is no server; the message tells the reader what to do. */
export class Refusal extends Error {}

/** Read everything the panel shows. */
export async function fetchStatus(
  settings: ServerConnection.ISettings
): Promise<Status> {
  return (await ask(settings, ['status'])) as Status;
}

/** A job's journal after an entry, at most `limit` entries of it. */
export async function fetchJournal(
  settings: ServerConnection.ISettings,
  job: string,
  after: number,
  limit: number
): Promise<Journal> {
  const query = `?after=${after}&limit=${limit}`;
  return (await ask(settings, ['jobs', job, 'journal'], query)) as Journal;
}

/** What a job's numbers did, over its whole run or of late. */
export async function fetchCurves(
  settings: ServerConnection.ISettings,
  job: string,
  span: Span
): Promise<Curves> {
  const path = ['jobs', job, 'curves'];
  return (await ask(settings, path, `?span=${span}`)) as Curves;
}

/** These of a job's numbers, of all that there are; closer: all that is known between two steps. */
export async function fetchRun(
  settings: ServerConnection.ISettings,
  job: string,
  names: string[],
  points: number,
  closer: { from: number; to: number } | null
): Promise<Curves> {
  const query = new URLSearchParams(names.map(name => ['name', name]));
  query.set('points', String(points));
  if (closer) {
    query.set('start', String(Math.max(0, Math.floor(closer.from))));
    query.set('stop', String(Math.max(0, Math.ceil(closer.to))));
  }
  return (await ask(settings, ['jobs', job, 'curves'], `?${query}`)) as Curves;
}

/** A run's text, how it was started, its checkpoints. */
export async function fetchFacts(
  settings: ServerConnection.ISettings,
  job: string
): Promise<RunFacts> {
  return (await ask(settings, ['jobs', job, 'facts'])) as RunFacts;
}

/** Pick which of them are drawn. */
export async function postPick(
  settings: ServerConnection.ISettings,
  job: string,
  names: string[],
  span: Span
): Promise<Curves> {
  const init = { method: 'POST', body: JSON.stringify({ names }) };
  const path = ['jobs', job, 'curves'];
  return (await ask(settings, path, `?span=${span}`, init)) as Curves;
}

/** Have something done with one of my jobs; resolves to what the server says of it. */
export async function postAction(
  settings: ServerConnection.ISettings,
  job: string,
  action: Verb,
  to: string
): Promise<string> {
  const body = JSON.stringify(to ? { to } : {});
  const init = { method: 'POST', body };
  return said(await ask(settings, ['jobs', job, action], '', init));
}

/** Have one of my deployed models called once, with inputs made from its signature. */
export async function postTry(
  settings: ServerConnection.ISettings,
  job: string
): Promise<string> {
  const init = { method: 'POST', body: '{}' };
  return said(await ask(settings, ['jobs', job, 'try'], '', init));
}

/** Ask another user to release their claim; or release one of mine, or leave the queue. */
export async function postHold(
  settings: ServerConnection.ISettings,
  claim: string,
  action: 'ask' | 'release'
): Promise<string> {
  const init = { method: 'POST', body: '{}' };
  return said(await ask(settings, ['claims', claim, action], '', init));
}

/** Remove jobs that have ended; resolves to what became of them. */
export async function postRemove(
  settings: ServerConnection.ISettings,
  jobs: string[]
): Promise<string> {
  const init = { method: 'POST', body: JSON.stringify({ jobs }) };
  return said(await ask(settings, ['jobs', 'remove'], '', init));
}

function said(answer: unknown): string {
  return (answer as { said?: string } | null)?.said ?? '';
}

async function ask(
  settings: ServerConnection.ISettings,
  path: string[],
  query = '',
  init: RequestInit = {}
): Promise<unknown> {
  const parts = path.map(encodeURIComponent);
  const url = URLExt.join(
    settings.baseUrl,
    'jupyter-gpufit',
    'api',
    ...parts
  );
  let response: Response;
  try {
    response = await ServerConnection.makeRequest(
      url + query,
      { ...init, signal: AbortSignal.timeout(PATIENCE) },
      settings
    );
  } catch {
    throw new Refusal(init.method === 'POST' ? UNKNOWN : SILENT);
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) {
    throw new Refusal(explain(response, answer));
  }
  return answer;
}

function explain(
  response: Response,
  answer: { message?: unknown } | null
): string {
  const { status, statusText } = response;
  const reason = String(answer?.message ?? '');
  if (status === 401 || status === 403) {
    return 'The Jupyter server does not let you do this. Sign in again, or ask its administrator for access.';
  }
  // 409: not now, 422: not so; and a 404 of ours names what is missing, where the server's own has nothing to say.
  if (reason && (status === 409 || status === 422)) {
    return reason;
  }
  if (status === 404) {
    return reason && reason !== 'Not Found'
      ? reason
      : 'The Jupyter server runs without the server extension of jupyter_gpufit. ' +
          'Install jupyter_gpufit in the environment of the server, run ' +
          '`jupyter server extension enable jupyter_gpufit` there, and restart it.';
  }
  return `The server extension of jupyter_gpufit failed (${status} ${statusText}). The log of the Jupyter server says why.`;
}
