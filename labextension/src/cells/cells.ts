/**
 * Gives cells their output back: what a job wrote while no page looked belongs into the cell that started it.
 *
 * A kernel sends output to the page that ran the cell. After a reload, or where a terminal or another kernel resumed the
 * job, that page is gone; the journal has it all. Where a page does get it from a kernel, nothing is done here.
 */

import { JupyterFrontEnd } from '@jupyterlab/application';

import { Notebook, startedFrom } from '../model/front';
import { Follower } from '../model/journal';
import { GpufitModel } from '../model/model';
import { Job, OVER } from '../words/schema';
import { cardIn, hasWidget, Outputs, told, Writer } from './outputs';

const LATEST = -5000; // entries that are brought at first
const PATIENCE = 3000; // ms

/** What a running cell has: its kernel's answers come through it, until it is done. */
interface Future {
  done: Promise<unknown>;
}

/** What a notebook's cell has, and nothing else of it: its class would cost a dependency. */
interface Cell {
  isDisposed: boolean;
  model: {
    id: string;
    type: string;
    isDisposed: boolean;
    outputs?: Outputs & { toJSON(): Record<string, unknown>[] };
  };
  outputArea?: { future?: Future | null };
}

type Book = Notebook & { content?: { widgets?: readonly Cell[] } };

interface Feed {
  job: string;
  follower: Follower;
  writer: Writer;
  future: Future | null; // the cell's, then
}

export class Cells {
  constructor(
    private shell: JupyterFrontEnd.IShell,
    private model: GpufitModel,
    private follow: (job: string, after: number) => Follower
  ) {
    model.stateChanged.connect(this._look, this);
  }

  private _look(): void {
    const all = this.model.status?.jobs ?? [];
    if (!all.length && !this._feeds.size) {
      return;
    }
    for (const book of this.shell.widgets('main') as Iterable<unknown> as Iterable<Book>) {
      if (!book.context?.path || !book.content?.widgets) {
        continue;
      }
      const jobs = newest(all.filter(job => startedFrom(job, book))); // a notebook's copy has cells of the same ids
      for (const cell of book.content.widgets) {
        const job = jobs.get(cell.model.id);
        this._watch(cell);
        if (job && !this._feeds.has(cell) && this._misses(cell, job)) {
          this._feed(cell, job);
        }
      }
    }
    for (const [cell, { future, writer }] of this._feeds) {
      const again = (cell.outputArea?.future ?? null) !== future;
      if (cell.isDisposed || cell.model.isDisposed || again || (writer.card && this._left(cell))) {
        this._end(cell); // closed, or run again, or a card that nobody changes any more
      }
    }
  }

  /** Remember when a kernel has sent its last word to a cell. */
  private _watch(cell: Cell): void {
    const future = cell.outputArea?.future;
    if (future && !this._known.has(future)) {
      this._known.add(future);
      const done = () => void this._done.add(future);
      future.done.then(done, done);
    }
  }

  /** Whether the job has more to show than the cell does, and no kernel sends it here. */
  private _misses(cell: Cell, job: Job): boolean {
    const future = cell.outputArea?.future;
    if (!cell.model.outputs || (future && !this._done.has(future))) {
      return false;
    }
    const now = `${job.id} ${job.state}`;
    if (this._settled.get(cell) === now) {
      return false; // outputs may be large, and are not to be read at every reading
    }
    const outputs = cell.model.outputs.toJSON();
    const over = OVER.has(job.state);
    const shown = told(outputs);
    const behind = shown?.job === job.id ? !over || shown.state !== job.state : !future && !over;
    if (!behind || (!over && job.followed && hasWidget(outputs))) {
      this._late.delete(cell);
      if (over) {
        this._settled.set(cell, now);
      }
      return false;
    }
    // A kernel that lives tells of the end by itself, a little later.
    return !over || this._waited(cell) > PATIENCE;
  }

  private _waited(cell: Cell): number {
    const now = performance.now();
    const since = this._late.get(cell);
    if (since === undefined) {
      this._late.set(cell, now);
      window.setTimeout(() => this._look(), PATIENCE + 1); // the next reading may be half a minute away
      return 0;
    }
    return now - since;
  }

  private _feed(cell: Cell, job: Job): void {
    const card = job.followed && !OVER.has(job.state) ? cardIn(cell.model.outputs!.toJSON()) : null;
    const writer = new Writer(cell.model.outputs!, job, card);
    const follower = this.follow(job.id, LATEST);
    const future = cell.outputArea?.future ?? null;
    this._feeds.set(cell, { job: job.id, follower, writer, future });
    follower.came.connect((_, entries) => {
      if (!cell.model.isDisposed) {
        writer.write(entries);
      }
    });
    follower.changed.connect(() => {
      if (follower.ended) {
        void this._finish(cell);
      }
    });
  }

  private async _finish(cell: Cell): Promise<void> {
    const feed = this._feeds.get(cell)!;
    if (!OVER.has(this._jobOf(feed)?.state ?? '')) {
      await this.model.refresh(0).catch(() => undefined); // the last reading may be older than the end
    }
    if (this._feeds.get(cell) === feed && feed.follower.ended) {
      this._tell(cell);
      this._end(cell);
    }
  }

  /** Whether the job goes on without the kernel that its cell ran in. */
  private _left(cell: Cell): boolean {
    const job = this._jobOf(this._feeds.get(cell)!);
    return job !== undefined && !job.followed && !OVER.has(job.state);
  }

  private _jobOf({ job: id }: Feed): Job | undefined {
    return this.model.status?.jobs.find(job => job.id === id);
  }

  /** Of a job that was lost no journal tells; and no cell may go on saying that it runs. */
  private _tell(cell: Cell): void {
    const feed = this._feeds.get(cell)!;
    const job = this._jobOf(feed);
    if (job && OVER.has(job.state) && told(cell.model.outputs!.toJSON())?.state !== job.state) {
      feed.writer.say(job);
    }
  }

  private _end(cell: Cell): void {
    const feed = this._feeds.get(cell);
    this._feeds.delete(cell);
    // Not from within its own signal.
    void Promise.resolve().then(() => feed?.follower.dispose());
  }

  private _feeds = new Map<Cell, Feed>();
  private _late = new WeakMap<Cell, number>(); // since when it lacks a job's end
  private _settled = new WeakMap<Cell, string>(); // the ended job and its state, of which nothing is missing
  private _known = new WeakSet<Future>();
  private _done = new WeakSet<Future>();
}

/** The last job of each cell. */
function newest(jobs: Job[]): Map<string, Job> {
  const found = new Map<string, Job>();
  for (const job of jobs) {
    const other = found.get(job.cell);
    if (job.cell && (!other || other.created < job.created)) {
      found.set(job.cell, job);
    }
  }
  return found;
}
