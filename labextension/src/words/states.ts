/** What a job's state means to who reads it: whether it has ended, what may be offered, what it is called; pure. */

import { GOING, Job, MAY, OVER, Status, Verb, VERBS } from './schema';
import { deviceWords, ordinal, stepWords } from './units';

const BECOMES = { resume: 'resuming', stop: 'stopping' };

export function hasEnded({ state }: Job): boolean {
  return OVER.has(state) && state !== 'released'; // which waits to go on
}

/** There is something to tell of its training. */
export function hasRun({ state }: Job): boolean {
  return GOING.has(state) || state === 'released';
}

/** The verbs that have a button at all; whether one can be pressed now, the server says. */
export function offered({ state, kind }: Pick<Job, 'state' | 'kind'>): Verb[] {
  const none = kind === 'model' ? 'checkpoint' : ''; // its file is all there is to save
  return VERBS.filter(verb => MAY[state][verb] !== 'no' && verb !== none);
}

/** Its state; or what the server is about to make of it, since a worker takes a moment to start, and to end. */
export function shownState({ state, under_way }: Job): string {
  const verb = MAY[state].resume === 'no' ? 'stop' : 'resume';
  return under_way.includes(verb) && state !== 'done' ? BECOMES[verb] : state;
}

/** "GPU 1: bert-run 62 % (+1)": the job that has come furthest, and how many there are beside it. */
export function summary(status: Status): string {
  const going = status.jobs.filter(({ state }) => !OVER.has(state));
  const first = going.find(job => job.device) ?? going[0];
  if (!first) {
    return '';
  }
  const more = going.length > 1 ? ` (+${going.length - 1})` : '';
  return `${words(first, status)}${more}`;
}

function words(job: Job, status: Status): string {
  const { name, device, progress } = job;
  const state = shownState(job);
  if (device) {
    const { step, total } = progress;
    const share = total ? `${Math.floor((100 * step) / total)} %` : stepWords(step);
    return `${deviceWords(device)}: ${name} ${state === 'running' ? share : state}`;
  }
  const ticket = status.queue.find(ticket => ticket.mine && ticket.job === job.id);
  return ticket
    ? `${name}: ${ordinal(ticket.position)} in the queue`
    : `${name}: ${state}`;
}

/** "running on GPU 1", "queued: …" */
export function stateWords(event: { [key: string]: unknown }): string {
  const device = event.device ? ` on ${deviceWords(String(event.device))}` : '';
  const reason = event.reason ? `: ${event.reason}` : '';
  return `${event.state}${device}${reason}`;
}
