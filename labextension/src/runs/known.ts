/** What the server knows of the numbers of several runs, asked again while somebody looks and one of them goes on. */

import { Poll } from '@lumino/polling';
import * as React from 'react';

import { GpufitModel } from '../model/model';
import { pause } from '../words/plot';
import { Curves, GOING, Job, OVER } from '../words/schema';
import { ranFor } from '../words/states';
import { Range } from './plot';

const RESTING = 60_000;
const LONGEST = 60_000; // ms between two tries while the server fails
const AT_ONCE = 4; // questions: the server reads as many journals at once
const POINTS = 1500; // of each line: more than a picture has pixels from left to right
const SHARED = 60_000; // points of all lines together: a hundred runs are drawn as smoothly as one

export type Known = ReadonlyMap<string, Curves>; // by the job's id

export function useRuns(
  model: GpufitModel,
  jobs: Job[],
  names: string[],
  closer: Range | null,
  host: React.RefObject<HTMLElement>
): { known: Known; trouble: string } {
  const [found, setFound] = React.useState<{ known: Known; trouble: string }>({ known: new Map(), trouble: '' });
  const ids = jobs.map(({ id }) => id).join();
  const going = jobs.filter(({ state }) => GOING.has(state)).map(job => ranFor(job, model.status?.time ?? 0));
  const interval = going.length ? 1000 * pause(Math.min(...going)) : RESTING;
  const awake = going.length > 0;
  React.useEffect(() => {
    const lines = Math.max(1, jobs.length) * Math.max(1, names.length); // of none that is chosen, one is drawn at least
    const each = Math.max(100, Math.min(POINTS, Math.floor(SHARED / lines)));
    const over = new Map<string, Curves>(); // of runs that have ended: they are asked for once
    const read = async ({ id, state }: Job): Promise<[string, Curves]> => {
      const before = over.get(id);
      if (before) {
        return [id, before];
      }
      const whole = await model.run(id, names, each, null);
      const near = closer ? await model.run(id, names.length ? names : drawn(whole), each, closer) : null;
      const found = near ? { ...whole, curves: near.curves } : whole;
      if (OVER.has(state)) {
        over.set(id, found);
      }
      return [id, found];
    };
    const poll = new Poll({
      name: `jupyter-gpufit:runs-${ids.slice(0, 40)}`,
      factory: async () => {
        try {
          const known = new Map<string, Curves>();
          for (let at = 0; at < jobs.length; at += AT_ONCE) {
            const some = await Promise.all(jobs.slice(at, at + AT_ONCE).map(read));
            some.forEach(([id, curves]) => known.set(id, curves));
          }
          if (!poll.isDisposed) {
            setFound({ known, trouble: '' });
          }
        } catch (error) {
          if (!poll.isDisposed) {
            setFound(({ known }) => ({ known, trouble: (error as Error).message }));
          }
          throw error;
        }
      },
      frequency: { interval, backoff: true, max: LONGEST },
      standby: () => document.hidden || !host.current?.offsetParent
    });
    return () => poll.dispose();
  }, [ids, names.join(), awake, closer?.from, closer?.to]);
  return found;
}

function drawn({ curves }: Curves): string[] {
  return curves.map(({ name }) => name);
}
