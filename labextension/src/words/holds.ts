/** What is mine in the lab and is no job of a notebook's: commands of `gpufit run`; pure. */

import { Job, Status } from './schema';
import { deviceWords, ordinal } from './units';

export interface Hold {
  id: string; // of its claim, or of its ticket
  name: string;
  line: string; // the command
  state: Job['state'];
  since: number; // seconds since 1970
  device: string; // "GPU 0"; empty: it waits
  waits: string; // "2nd in the queue: ..."
  askers: string; // who would like the device
}

/** Those that hold a device first. */
export function commands({ claims, queue, jobs }: Pick<Status, 'claims' | 'queue' | 'jobs'>): Hold[] {
  const known = new Set(jobs.map(({ id }) => id));
  const mine = <T extends { mine: boolean; job: string }>(some: T[]) =>
    some.filter(({ mine, job }) => mine && !known.has(job));
  return [
    ...mine(claims).map(({ id, name, label, since, devices, asked_by }) => ({
      id,
      name,
      line: label,
      state: 'running' as const,
      since,
      device: devices.map(deviceWords).join(', '),
      waits: '',
      askers: asked_by.join(', ')
    })),
    ...mine(queue).map(({ id, name, label, since, position, reason }) => ({
      id,
      name,
      line: label,
      state: 'queued' as const,
      since,
      device: '',
      waits: `${ordinal(position)} in the queue: ${reason}`,
      askers: ''
    }))
  ];
}
