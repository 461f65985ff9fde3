/** The panel in the sidebar: owns the model, what feeds it and the view, and disposes of them. */

import { ServerConnection } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import { Poll } from '@lumino/polling';
import { Panel } from '@lumino/widgets';

import { Events } from '../model/events';
import { Front } from '../model/front';
import { GpufitModel } from '../model/model';
import { DEFAULTS, Preferences } from '../model/settings';
import { hasEnded } from '../words/states';
import { StatusView } from './view';

const PATIENT = 4_000; // ms for which a WebSocket may be silent before the server is asked
const BEHIND = 10_000; // ms between two readings while the panel is hidden and a job goes on
const RESTING = 30_000; // ms between two readings while there is nothing to tell of
const LONGEST = 10_000; // ms between two tries while the server fails

export class GpufitPanel extends Panel {
  constructor(
    settings: ServerConnection.ISettings,
    private events: Events,
    commands: CommandRegistry,
    front: Front
  ) {
    super();
    this.id = 'jupyter-gpufit-panel';
    this.addClass('jp-gpufit-panel');
    this.title.caption = 'GPUs and jobs';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this.title.caption);
    this.model = new GpufitModel(settings, events, front);
    this.addWidget(new StatusView(this.model, commands));
    this._poll = new Poll({
      name: 'jupyter-gpufit:status',
      factory: () => this.model.refresh(this._live ? PATIENT : 0),
      frequency: this._frequency(),
      standby: 'when-hidden'
    });
    this.model.stateChanged.connect(() => this._pace()); // the first reading turns nothing, and may tell of a job
  }

  readonly model: GpufitModel;

  set preferences(preferences: Preferences) {
    this._preferences = preferences;
    this.model.others = preferences.others;
    this._attend();
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._hold?.dispose();
    this._poll.dispose();
    this.model.dispose();
    super.dispose();
  }

  /** Do not make the reader wait for the next tick. */
  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._attend();
    void this._poll.refresh();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._attend();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._attend();
  }

  /** Somebody looks, and wants to see changes as they happen. */
  private get _live(): boolean {
    return this.isVisible && this._preferences.refresh <= 1;
  }

  /** Keep the WebSocket while it is of use. */
  private _attend(): void {
    if (this._live && !this._hold) {
      this._hold = this.events.hold();
    } else if (!this._live && this._hold) {
      this._hold.dispose();
      this._hold = null;
    }
    this._pace();
  }

  private _pace(): void {
    const wanted = this._frequency();
    if (wanted.interval !== this._poll.frequency.interval) {
      this._poll.frequency = wanted;
    }
  }

  private _frequency(): { interval: number; backoff: boolean; max: number } {
    const going = this.model.status?.jobs.some(job => !hasEnded(job));
    const interval = this.isVisible
      ? this._preferences.refresh * 1000
      : going
        ? BEHIND
        : RESTING;
    return { interval, backoff: true, max: Math.max(LONGEST, interval) };
  }

  private _preferences = DEFAULTS;
  private _hold: IDisposable | null = null;
  private _poll: Poll;
}
