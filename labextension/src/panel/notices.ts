/** Tells of jobs although nobody looks at the panel; one notice a job, which the next replaces. */

import { Notification } from '@jupyterlab/apputils';

import { GpufitModel } from '../model/model';
import { Job, Status } from '../words/schema';
import { asking, Asking, News, news, Rules } from '../words/news';
import { endCommand } from './commands';

const SHOWN = 8_000; // ms that a notice stays, unless something failed or somebody asks

export class Notices {
  constructor(
    private model: GpufitModel,
    private rules: () => Rules,
    private openLog: (job: Job) => void
  ) {
    model.turned.connect((_, { before, after }) => this._turn(before, after));
    model.stateChanged.connect(this._look, this);
    this._look();
  }

  private _turn(before: Status, after: Status): void {
    for (const item of news(before, after, this.rules())) {
      const job = after.jobs.find(({ id }) => id === item.job);
      if (job && !this.model.front.shows(job)) {
        this._tell(item, job);
      }
    }
  }

  private _tell({ kind, text }: News, job: Job): void {
    this._show(job.id, text, kind, {
      autoClose: kind === 'error' ? false : SHOWN,
      actions: [{ label: 'Open log', callback: () => this.openLog(job) }]
    });
  }

  /** Always, also of what was asked while no page was open. */
  private _look(): void {
    const { status } = this.model;
    if (!status) {
      return;
    }
    for (const item of asking(status, this._asked)) {
      this._ask(item);
    }
    for (const claim of this._asks) {
      if (!status.claims.some(({ id, asked_by }) => id === claim && asked_by.length)) {
        this._asks.delete(claim);
        this._close(claim); // given, or nobody asks any more
      }
    }
  }

  private _ask({ claim, name, job, text }: Asking): void {
    const release = job
      ? {
          label: 'Release',
          caption: 'Save it at its next safe point, and leave the device.',
          callback: () => void this.model.act(job, 'release')
        }
      : { label: 'End…', callback: () => void endCommand(this.model, claim, name) };
    const later = { label: 'Not now', callback: () => undefined };
    this._asks.add(claim);
    this._show(claim, text, 'warning', { autoClose: false, actions: [release, later] });
  }

  private _show(
    of: string,
    text: string,
    kind: News['kind'],
    options: Notification.IOptions<null>
  ): void {
    this._close(of);
    this._shown.set(of, Notification.emit(text, kind, options));
  }

  private _close(of: string): void {
    const last = this._shown.get(of);
    if (last && Notification.manager.has(last)) {
      Notification.dismiss(last);
    }
    this._shown.delete(of);
  }

  private _asked = new Set<string>(); // claims and users, of whom it was told
  private _asks = new Set<string>(); // claims with a notice
  private _shown = new Map<string, string>(); // the notice of each
}
