/** The tabs in the main area: one for each run, and one with the table of all. */

import { MainAreaWidget } from '@jupyterlab/apputils';
import { VDomRenderer } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { IDisposable } from '@lumino/disposable';
import * as React from 'react';

import { GpufitModel } from '../model/model';
import type { MakeLog } from './page';

// What draws is fetched once somebody looks: most page loads never come here.
const RunPage = React.lazy(async () => ({ default: (await import('./page')).RunPage }));
const RunsTable = React.lazy(async () => ({ default: (await import('./table')).RunsTable }));

class View extends VDomRenderer<GpufitModel> {
  constructor(
    model: GpufitModel,
    private draw: () => JSX.Element
  ) {
    super(model);
    this.addClass('jp-gpufit-run');
  }

  protected render(): JSX.Element {
    return <React.Suspense fallback={<p>…</p>}>{this.draw()}</React.Suspense>;
  }
}

export class RunTab extends MainAreaWidget<View> {
  /** Of one run; without an id, the table of all. */
  constructor(options: { id: string; name: string; model: GpufitModel; commands: CommandRegistry; log: MakeLog }) {
    const { id, name, model, commands, log } = options;
    super({
      content: new View(model, () =>
        id ? <RunPage {...{ id, model, commands, log }} /> : <RunsTable model={model} commands={commands} />
      )
    });
    this.job = id;
    this.id = `jupyter-gpufit-run-${id || 'all'}`;
    this.title.label = id ? name : 'Runs';
    this.title.caption = id ? `Run ${name} (${id})` : 'All my runs';
    this.title.closable = true;
    this.toolbar.hide();
    this.content.node.setAttribute('aria-label', this.title.caption);
    this._watch = model.watch(); // also while the panel is closed
  }

  readonly job: string;

  override dispose(): void {
    this._watch.dispose();
    super.dispose();
  }

  private _watch: IDisposable;
}
