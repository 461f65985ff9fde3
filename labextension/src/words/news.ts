/** What there is to tell when one reading follows another; pure. */

import { BEFORE, Job, Status } from './schema';
import { deviceWords, formatDuration } from './units';

/** When to tell of a job although nobody looks at the panel. */
export interface Rules {
  ended: boolean;
  failed: boolean;
  device: boolean; // it got its device
  waiting: number; // minutes after which a job that still waits is told of; 0: never
}

export interface News {
  job: string; // its id
  kind: 'success' | 'error' | 'warning' | 'info';
  text: string;
}

const MINUTE = 60; // seconds
const BADLY: Partial<Record<Job['state'], string>> = { failed: 'failed', lost: 'was lost' };
const AT_ONCE = 10; // seconds after which whoever started it may look elsewhere

export function news(before: Status, after: Status, rules: Rules): News[] {
  const known = new Map(before.jobs.map(job => [job.id, job]));
  return after.jobs.flatMap(job => {
    const was = known.get(job.id);
    const told = was
      ? turned(was, job, after.time, rules) ?? waited(before.time, job, after.time, rules)
      : null;
    return told ? [{ job: job.id, ...told }] : [];
  });
}

type Told = Omit<News, 'job'> | null;

/** Somebody asks for what I hold: the one event that needs a person. */
export interface Asking {
  claim: string;
  name: string;
  job: Job | null; // whose claim it is; null: a command's
  text: string;
}

/** Those of whom nobody has told yet; `known` is told of them, and forgets who asks no more. */
export function asking({ claims, jobs }: Status, known: Set<string>): Asking[] {
  const now = new Set(claims.flatMap(({ id, asked_by }) => asked_by.map(user => `${id} ${user}`)));
  [...known].filter(one => !now.has(one)).forEach(one => known.delete(one));
  return claims.flatMap(({ id, mine, job, name, devices, asked_by }) => {
    const fresh = mine ? asked_by.filter(user => !known.has(`${id} ${user}`)) : [];
    fresh.forEach(user => known.add(`${id} ${user}`));
    if (!fresh.length) {
      return [];
    }
    const ask = fresh.length > 1 ? 'ask' : 'asks';
    const text = `${fresh.join(' and ')} ${ask} for ${devices.map(deviceWords).join(' and ')}, which ${name} holds.`;
    return [{ claim: id, name, job: jobs.find(one => one.id === job) ?? null, text }];
  });
}

function turned(was: Job, job: Job, now: number, rules: Rules): Told {
  const { name, state, reason, device } = job;
  if (was.state === state) {
    return null;
  }
  if (rules.ended && state === 'done') {
    return { kind: 'success', text: `${name} is done.` };
  }
  const badly = BADLY[state];
  if (rules.failed && badly) {
    return { kind: 'error', text: [`${name} ${badly}`, reason].join(': ') };
  }
  const waited = now - job.created > AT_ONCE;
  if (rules.device && waited && BEFORE.has(was.state) && state === 'running') {
    const where = device ? ` on ${deviceWords(device)}` : '';
    return { kind: 'info', text: `${name} runs${where}.` };
  }
  return null;
}

/** Once, at the reading in which the time is over. */
function waited(then: number, job: Job, now: number, rules: Rules): Told {
  const due = job.since + rules.waiting * MINUTE;
  if (job.state !== 'queued' || !rules.waiting || then >= due || now < due) {
    return null;
  }
  const long = formatDuration(now - job.since);
  const text = `${job.name} has waited for ${long}: ${job.reason}`;
  return { kind: 'warning', text };
}
