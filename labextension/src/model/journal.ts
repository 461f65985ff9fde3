/** Follows a job's journal, over the WebSocket or, without one, by asking again and again. */

import { ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { Entry, Message } from '../words/schema';
import { fetchJournal } from './api';
import { Events } from './events';
import { Place } from './place';

const PAGE = 1000; // entries
const INTERVAL = 1000; // ms between two questions while there is no WebSocket
const LONGEST = 10_000; // ms between two tries while the server fails

const followers = new Set<Follower>();
let questions = 0;

export class Follower implements IDisposable {
  /** Follow the job's journal from behind the entry `after`; -1000: from the last thousand on. */
  constructor(
    private settings: ServerConnection.ISettings,
    private events: Events,
    private job: string,
    after: number
  ) {
    this._place = new Place(after);
    followers.add(this);
    this._hold = events.hold();
    events.arrived.connect(this._take, this);
    events.changed.connect(this._connection, this);
    this._poll = new Poll({
      auto: false,
      name: `jupyter-gpufit:journal-${job}`,
      factory: () => this._ask(),
      frequency: { interval: INTERVAL, backoff: true, max: LONGEST },
      standby: 'when-hidden'
    });
    this._connection(events, events.open);
  }

  /** New entries, in their order, each once. */
  get came(): ISignal<this, Entry[]> {
    return this._came;
  }

  /** There is another `trouble`, or another word on whether the job has ended. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Why nothing comes, or empty. */
  trouble = '';

  /** Nothing more will come unless the job is resumed. */
  ended = false;

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._poll.dispose();
    followers.delete(this);
    this.events.arrived.disconnect(this._take, this);
    this.events.changed.disconnect(this._connection, this);
    if (!this._others().length) {
      this.events.send({ unfollow: this.job });
    }
    this._hold.dispose();
    Signal.clearData(this);
  }

  private _connection(_: Events, open: boolean): void {
    if (open) {
      void this._poll.stop();
      // One connection brings a job's journal once: from where the first of those who follow it wants it.
      const places = [this, ...this._others()].map(({ _place }) => _place);
      const question = ++questions;
      places.forEach(place => (place.question = question));
      const after = Math.min(...places.map(place => place.after));
      this.events.send({ follow: { job: this.job, after, question } });
      this._say('');
    } else {
      void this._poll.start(); // first after an interval, in which the WebSocket may open
    }
  }

  private _take(_: Events, message: Message): void {
    if (
      message.type === 'entries' &&
      message.job === this.job &&
      message.question === this._place.question
    ) {
      this._arrive(message.entries, message.ended);
    }
  }

  private async _ask(): Promise<void> {
    const { settings, job } = this;
    try {
      for (;;) {
        const page = await fetchJournal(settings, job, this._place.after, PAGE);
        // Meanwhile the WebSocket may have opened, and brings the rest.
        if (this.isDisposed || this.events.open) {
          return;
        }
        this._arrive(page.entries, page.ended);
        if (!page.entries.length) {
          break;
        }
      }
      this._say('');
    } catch (error) {
      this._say((error as Error).message);
      throw error;
    }
  }

  private _arrive(entries: Entry[], ended: boolean): void {
    const fresh = this._place.fresh(entries);
    if (fresh.length) {
      this._came.emit(fresh);
    }
    if (ended !== this.ended) {
      this.ended = ended;
      this._changed.emit();
    }
  }

  /** Those who follow the same job over the same connection. */
  private _others(): Follower[] {
    return [...followers].filter(
      other => other !== this && other.job === this.job && other.events === this.events
    );
  }

  private _say(trouble: string): void {
    if (!this.isDisposed && trouble !== this.trouble) {
      this.trouble = trouble;
      this._changed.emit();
    }
  }

  private _place: Place;
  private _hold: IDisposable;
  private _poll: Poll;
  private _came = new Signal<this, Entry[]>(this);
  private _changed = new Signal<this, void>(this);
}
