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
const SETTLED = 200; // ms: of several steps of a zoom, the last is asked for

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
  const lines = Math.max(1, jobs.length) * Math.max(1, names.length); // of none that is chosen, one is drawn at least
  const each = Math.max(100, Math.min(POINTS, Math.floor(SHARED / lines)));
  // Runs that have ended are asked for once: a closer look asks for nothing else.
  const over = React.useMemo(() => new Map<string, Curves>(), [names.join(), each]);
  const latest = React.useRef(jobs); // some end, or are resumed, while the same are drawn
  latest.current = jobs;
  React.useEffect(() => {
    const near = new Map<string, Curves>();
    const once = async (kept: Map<string, Curves>, { id, state }: Job, ask: () => Promise<Curves>) => {
      const ended = OVER.has(state);
      const found = (ended && kept.get(id)) || (await ask());
      if (ended) {
        kept.set(id, found);
      } else {
        kept.delete(id); // it was resumed
      }
      return found;
    };
    const read = async (job: Job): Promise<[string, Curves]> => {
      const { id } = job;
      const whole = await once(over, job, () => model.run(id, names, each, null));
      if (!closer) {
        return [id, whole];
      }
      const wanted = names.length ? names : drawn(whole);
      const { curves } = await once(near, job, () => model.run(id, wanted, each, closer));
      return [id, { ...whole, curves }];
    };
    const poll = new Poll({
      name: `jupyter-gpufit:runs-${ids.slice(0, 40)}`,
      factory: async () => {
        try {
          const known = new Map<string, Curves>();
          const now = latest.current;
          for (let at = 0; at < now.length && !poll.isDisposed; at += AT_ONCE) {
            const some = await Promise.all(now.slice(at, at + AT_ONCE).map(read));
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
      standby: () => document.hidden || !host.current?.offsetParent,
      auto: false
    });
    const settled = window.setTimeout(() => void poll.start(), closer ? SETTLED : 0);
    return () => {
      window.clearTimeout(settled);
      poll.dispose();
    };
  }, [ids, over, awake, closer?.from, closer?.to]);
  return found;
}

function drawn({ curves }: Curves): string[] {
  return curves.map(({ name }) => name);
}
