/** Knows which notebook is in front; when a log or a terminal covers it, it is still the one that is worked on. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { Job } from '../words/schema';
import { contentsPath } from './paths';

/** What a notebook's widget has, and nothing else in the main area: its class would cost a dependency. */
export interface Notebook {
  isDisposed: boolean;
  context: { path: string; ready: Promise<void> };
  sessionContext: { session: { kernel: { id: string } | null } | null };
}

export class Front {
  constructor(private shell: JupyterFrontEnd.IShell) {
    shell.currentChanged?.connect(this._look, this);
    this._look();
  }

  /** Another notebook came to the front, or has its cells now. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether the job was started from it. A kernel's id tells it after the notebook was renamed, too. */
  started(job: Job): boolean {
    const notebook = this._notebook;
    return notebook !== null && !notebook.isDisposed && startedFrom(job, notebook);
  }

  /** Whether the job's notebook is what somebody looks at now. */
  shows(job: Job): boolean {
    const current = this.shell.currentWidget as unknown;
    return document.visibilityState === 'visible' && current === this._notebook && this.started(job);
  }

  private _look(): void {
    const current = this.shell.currentWidget as unknown as Notebook | null;
    if (
      current?.context?.path &&
      current.sessionContext &&
      current !== this._notebook
    ) {
      this._notebook = current;
      this._changed.emit();
      void current.context.ready.then(() => this._changed.emit());
    }
  }

  private _notebook: Notebook | null = null;
  private _changed = new Signal<this, void>(this);
}

/** Whether the job was started from this notebook. */
export function startedFrom(job: Job, notebook: Notebook): boolean {
  const root = PageConfig.getOption('serverRoot');
  const path = notebook.context.path.replace(/^[^/:]+:/, ''); // without the name of a drive
  const kernel = notebook.sessionContext.session?.kernel?.id;
  return (
    (job.notebook !== '' && contentsPath(job.notebook, root) === path) ||
    (job.kernel_id !== '' && job.kernel_id === kernel)
  );
}
