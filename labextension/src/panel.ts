/** The panel in the sidebar: owns the model, the poll and the view, and disposes of them. */

import { ServerConnection } from '@jupyterlab/services';
import { LabIcon } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { Poll } from '@lumino/polling';
import { Panel } from '@lumino/widgets';

import { GpufitModel } from './model';
import { StatusView } from './view';

const INTERVAL = 2_000; // ms between two readings
const LONGEST = 30_000; // ms between two tries while the server fails

// A graphics card: bracket, board with two fans, and connector. `jp-icon3` gives it the colour of its neighbours.
const icon = new LabIcon({
  name: 'jupyter-gpufit:card',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" fill-rule="evenodd" d="M1 4h2v16H1zM4 6h18a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4z
    M9 8a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zm0 2.2a1.3 1.3 0 1 1 0 2.6 1.3 1.3 0 0 1 0-2.6z
    M18 8a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zm0 2.2a1.3 1.3 0 1 1 0 2.6 1.3 1.3 0 0 1 0-2.6zM6 18h9v2H6z"/>
</svg>`
});

export class GpufitPanel extends Panel {
  constructor(settings: ServerConnection.ISettings) {
    super();
    this.id = 'jupyter-gpufit-panel';
    this.addClass('jp-gpufit-panel');
    this.title.icon = icon;
    this.title.caption = 'GPUs and jobs';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this.title.caption);
    this._model = new GpufitModel(settings);
    this.addWidget(new StatusView(this._model));
    this._poll = new Poll({
      name: 'jupyter-gpufit:status',
      factory: () => this._model.refresh(),
      frequency: { interval: INTERVAL, backoff: true, max: LONGEST },
      standby: () => (this.isVisible ? 'when-hidden' : true)
    });
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._poll.dispose();
    this._model.dispose();
    super.dispose();
  }

  /** Do not make the reader wait for the next tick. */
  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    void this._poll.refresh();
  }

  private _model: GpufitModel;
  private _poll: Poll;
}
