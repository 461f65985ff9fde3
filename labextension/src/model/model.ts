/** Knows the last reading, whether it still holds, and what became of each button pressed; signals a change of any. */

import { ServerConnection } from '@jupyterlab/services';
import { VDomModel } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { discreet, Others } from '../words/discreet';
import { Curves, RunFacts, Job, Message, SaidMessage, Status, Verb } from '../words/schema';
import {
  fetchCurves,
  fetchFacts,
  fetchRun,
  fetchStatus,
  postAction,
  postHold,
  postTry,
  postPick,
  postRemove,
  Span
} from './api';
import { Events } from './events';
import { Front } from './front';
import { continued } from '../words/history';
import { shared } from './sharing';

/** What became of a button: sent, heard by the server in its words, or refused with the reason. */
export interface Deed {
  action: string; // a Verb, 'ask', 'remove' or 'try'
  phase: 'sent' | 'heard' | 'refused';
  text: string;
  mark: string; // what the job looked like; when it looks different, the deed has become its state
}

/** Stands for several jobs, where one deed is done with all of them; the server calls them so, too. */
export const ENDED = 'ended';

export class GpufitModel extends VDomModel {
  constructor(
    private settings: ServerConnection.ISettings,
    private events: Events,
    readonly front: Front
  ) {
    super();
    front.changed.connect(this._emit, this);
    events.arrived.connect(this._take, this);
    events.changed.connect(this._connection, this);
  }

  /** The last reading; null before the first. */
  get status(): Status | null {
    return this._status;
  }

  /** Why there is no newer reading; empty while the server answers. */
  get trouble(): string {
    return this._trouble;
  }

  /** A reading came after another: what changed between them. */
  get turned(): ISignal<this, { before: Status; after: Status }> {
    return this._turned;
  }

  /** What became of the last button of this job, or of this claim. */
  deed(id: string): Deed | null {
    return this._deeds.get(id) ?? null;
  }

  /** What to show of other users. */
  set others(others: Others) {
    this._others = others;
    if (this._full) {
      this._status = shared(this._status, discreet(this._full, others));
      this.stateChanged.emit();
    }
  }

  /** Read again, unless readings arrive by themselves; rejects when the server does not answer, so that a poll backs off. */
  async refresh(fresh: number): Promise<void> {
    if (this.events.open && performance.now() - this._heard < fresh) {
      return;
    }
    try {
      this._arrive(await fetchStatus(this.settings));
    } catch (error) {
      this.events.drop();
      this._trouble = (error as Error).message;
      throw error;
    } finally {
      this._emit();
    }
  }

  /** Have readings come as they change until what this returns is disposed. */
  watch(): IDisposable {
    return this.events.hold();
  }

  /** Press a button of one of my jobs. */
  async act(job: Job, action: Verb, to = ''): Promise<void> {
    const send = () => postAction(this.settings, job.id, action, to);
    await this._do(job.id, action, looks(job), send);
  }

  /** Call one of my deployed models once. */
  async tryIt(job: Job): Promise<void> {
    await this._do(job.id, 'try', looks(job), () => postTry(this.settings, job.id));
  }

  /** Ask another user to release their claim. */
  async ask(claim: string): Promise<void> {
    await this._do(claim, 'ask', '', () => postHold(this.settings, claim, 'ask'));
  }

  /** Release what I hold, or leave the queue: a command is asked to end. */
  async giveUp(claim: string): Promise<void> {
    await this._do(claim, 'release', '', () => postHold(this.settings, claim, 'release'));
  }

  /** Remove jobs that have ended, with their files. */
  async remove(jobs: string[]): Promise<void> {
    const id = jobs.length === 1 ? jobs[0] : ENDED;
    await this._do(id, 'remove', '', () => postRemove(this.settings, jobs));
  }

  /** What a job's numbers did. */
  curves(job: Job, span: Span): Promise<Curves> {
    return fetchCurves(this.settings, job.id, span);
  }

  /** These of a run's numbers, as many points of each as a large picture shows. */
  run(job: string, names: string[], points: number, closer: { from: number; to: number } | null): Promise<Curves> {
    return fetchRun(this.settings, job, names, points, closer);
  }

  /** What else there is to know of a run. */
  facts(job: string): Promise<RunFacts> {
    return fetchFacts(this.settings, job);
  }

  /** Have these of a job's numbers drawn from now on, here and in its notebook. */
  pick(job: Job, names: string[], span: Span): Promise<Curves> {
    return postPick(this.settings, job.id, names, span);
  }

  private async _do(
    id: string,
    action: Verb | 'ask' | 'remove' | 'try',
    mark: string,
    send: () => Promise<string>
  ): Promise<void> {
    if (this._deeds.get(id)?.phase === 'sent') {
      return; // one at a time: a second click is an impatient one
    }
    this._deeds.set(id, { action, mark, phase: 'sent', text: '' });
    this._emit();
    let phase: Deed['phase'] = 'heard';
    let text = '';
    try {
      text = await send();
    } catch (error) {
      phase = 'refused';
      text = (error as Error).message;
    }
    this._deeds.set(id, { action, mark, phase, text });
    this._forgetDeeds();
    this._emit();
  }

  private _take(_: Events, message: Message): void {
    this._heard = performance.now();
    if (message.type === 'status') {
      const { since, status } = message;
      this._arrive(since ? continued(this._full, status) : status);
      this._emit();
    } else if (message.type === 'said') {
      this._hear(message);
      this._emit();
    }
  }

  /** A button's later words, of this page's or of another's. */
  private _hear({ job: id, action, text, failed }: SaidMessage): void {
    const job = this._status?.jobs.find(job => job.id === id);
    const mark = job ? looks(job) : '';
    this._deeds.set(id, {
      action,
      mark: this._deeds.get(id)?.mark ?? mark,
      phase: failed ? 'refused' : 'heard',
      text
    });
    // Its effect may have been read before it was told of.
    this._forgetDeeds();
  }

  private _connection(_: Events, open: boolean): void {
    this._heard = open ? performance.now() : -Infinity;
  }

  private _arrive(status: Status): void {
    this._trouble = '';
    const last = this._full;
    // An answer may be overtaken by the next message; a clock that was set back is another matter.
    if (last && status.time < last.time && last.time - status.time < 10) {
      return;
    }
    const before = this._status;
    this._full = status;
    this._status = shared(before, discreet(status, this._others));
    this._forgetDeeds();
    if (before) {
      this._turned.emit({ before, after: this._status });
    }
  }

  /** A deed that has become the job's state need not be told any more. */
  private _forgetDeeds(): void {
    const jobs = this._status?.jobs ?? [];
    const { claims = [], queue = [] } = this._status ?? {};
    const ids = new Set([ENDED, ...[...jobs, ...claims, ...queue].map(({ id }) => id)]);
    for (const [id, deed] of this._deeds) {
      const job = jobs.find(job => job.id === id);
      const done = !ids.has(id) || (job && looks(job) !== deed.mark);
      if (deed.phase !== 'sent' && done) {
        this._deeds.delete(id);
      }
    }
  }

  private _emit(): void {
    if (!this.isDisposed) {
      this.stateChanged.emit();
    }
  }

  private _full: Status | null = null;
  private _status: Status | null = null;
  private _others: Others = 'all';
  private _trouble = '';
  private _heard = -Infinity;
  private _deeds = new Map<string, Deed>();
  private _turned = new Signal<
    this,
    { before: Status; after: Status }
  >(this);
}

function looks({ state, since, device, checkpoint }: Job): string {
  return [state, since, device, checkpoint?.time].join();
}
