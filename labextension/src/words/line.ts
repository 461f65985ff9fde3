/** One line about a job, as its kernel shows it: where it is, why it waits, how far it has come; pure. */

import { Entry, GOING, LEFT } from './schema';
import { stateWords } from './states';
import { formatBytes, formatDuration, stepWords } from './units';

/** A job's state, and what is said with it. */
export type Told = {
  state: string;
  reason: string;
  device: string;
};

const SIGNS: Record<string, string> = {
  done: '✓',
  failed: '✗',
  stopped: '■',
  lost: '✗',
  running: '▶',
  released: '⏏'
};

interface Mark {
  step: number;
  used: number;
  peak: number;
  pace?: string;
}

export class Line {
  constructor(private name: string) {}

  /** Whether the line has changed. */
  take({ event, time }: Entry): boolean {
    const before = this._time;
    this._time = Math.max(before, time); // what is said without a journal has no time
    switch (event.kind) {
      case 'state': {
        const told = event as unknown as Told;
        const [went, goes] = [GOING.has(this._told?.state ?? ''), GOING.has(told.state)];
        if (goes && !went) {
          this._began = time;
        } else if (went && !goes) {
          // Where its worker was killed, what it said last is its end.
          this._ran += (LEFT.has(told.state) ? this._time : before) - this._began;
        }
        this._told = told;
        return true;
      }
      case 'progress':
        this._mark = event as unknown as Mark;
        this._peak = Math.max(this._peak, this._mark.peak); // after a resume or a move another process counts anew
        return true;
      case 'saved':
        this._saved = Number(event.step);
        return true;
      default:
        return false;
    }
  }

  /** `failed`: its error stands above. */
  text(failed: boolean): string {
    const told = this._told ?? { state: 'starting', reason: '', device: '' };
    const left = LEFT.has(told.state);
    const words = stateWords(failed ? { ...told, reason: '' } : told);
    const parts = [`${SIGNS[told.state] ?? '…'} ${this.name}: ${words}`];
    if (this._mark) {
      const { step, used, pace } = this._mark;
      const steps = stepWords(step);
      const taken = `peak ${formatBytes(this._peak)}`;
      parts.push(step && !words.includes(steps) ? steps : '', pace ?? '', told.device ? `${formatBytes(used)}, ${taken}` : taken);
    }
    parts.push(this._saved !== null && !left ? `saved at ${stepWords(this._saved)}` : '');
    parts.push(left && told.state !== 'released' && this._began ? `after ${formatDuration(this._ran)}` : '');
    return parts.filter(Boolean).join(' · ');
  }

  private _told: Told | null = null;
  private _mark: Mark | null = null;
  private _peak = 0; // bytes, of all its processes
  private _saved: number | null = null;
  private _began = 0;
  private _ran = 0; // seconds, but for the last stretch
  private _time = 0;
}
