/** What a job's state means to who reads it: whether it has ended, what may be offered, what it is called; pure. */

import { GOING, Job, MAY, OVER, Status, Verb, VERBS } from './schema';
import { deviceWords, formatBytes, formatCount, formatDuration, formatMoment, ordinal, stepWords } from './units';

const BECOMES = { resume: 'resuming', stop: 'stopping' };

export function hasEnded({ state }: Job): boolean {
  return OVER.has(state) && state !== 'released'; // which waits to go on
}

/** There is something to tell of its training. */
export function hasRun({ state, began }: Job): boolean {
  return GOING.has(state) || state === 'released' || (began !== null && !OVER.has(state));
}

/** For how long its cell has run, on whatever device; seconds. */
export function ranFor({ state, since, ran }: Job, now: number): number {
  return ran + (GOING.has(state) ? Math.max(0, now - since) : 0);
}

/** What is left to say of a job that has ended: when, how long, how far, how much. */
export function endWords(job: Job, now: number): string {
  const { began, created, memory, progress } = job;
  const took = began === null ? 'it never ran' : `ran ${formatDuration(ranFor(job, now))}`;
  const steps = progress.step ? `${formatCount(progress.step)} steps` : '';
  const peak = memory?.peak ? `peak ${formatBytes(memory.peak)}` : '';
  const when = formatMoment(began ?? created, now);
  return [began === null ? when : `began ${when}`, took, steps, peak].filter(Boolean).join(', ');
}

/** My jobs as they matter: what one works on, what runs, what waits, what rests; and those that have ended, newest first. */
export function inOrder(jobs: Job[], isHere: (job: Job) => boolean): { here: Job | null; mine: Job[]; ended: Job[] } {
  const newest = [...jobs].reverse();
  const here = newest.find(isHere) ?? null;
  const others = newest.filter(job => job !== here);
  // One that is being resumed goes on soon: it is looked for at the top.
  const rests = (job: Job) => hasEnded(job) && !job.under_way.includes('resume');
  const rank = ({ state }: Job) => (GOING.has(state) ? 0 : OVER.has(state) ? 2 : 1);
  const going = others.filter(job => !rests(job)).sort((a, b) => rank(a) - rank(b));
  return { here, mine: here ? [here, ...going] : going, ended: others.filter(rests) };
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

/** "running on GPU 1", "queued: …", "moving from cpu:0 to cpu:1, from its next safe point" */
export function stateWords(event: { [key: string]: unknown }): string {
  const device = event.device ? placed(String(event.state), String(event.device)) : String(event.state);
  const reason = String(event.reason || '');
  if (reason.startsWith(String(event.state))) {
    return reason; // "released at step 3; ..." says the state, too
  }
  return reason ? `${device}${reason.startsWith('to ') ? ' ' : ': '}${reason}` : device;
}

/** "3 outputs are missing here: the disk was full" */
export function missingWords({ missed, why }: { [key: string]: unknown }): string {
  return `${formatCount(Number(missed))} ${missed === 1 ? 'output is' : 'outputs are'} missing here: ${why}`;
}

/** A state and the device that it is on, or comes from. */
export function placed(state: string, device: string): string {
  const name = deviceWords(device);
  return state === 'moving' ? `${state} from ${name}` : `${state} on ${name}`;
}
