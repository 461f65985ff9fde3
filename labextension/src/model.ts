/** Knows the last reading and whether it still holds, and signals a change of either. */

import { ServerConnection } from '@jupyterlab/services';
import { VDomModel } from '@jupyterlab/ui-components';

import { fetchStatus, Status } from './api';

export class GpufitModel extends VDomModel {
  constructor(private settings: ServerConnection.ISettings) {
    super();
  }

  /** The last reading; null before the first. */
  get status(): Status | null {
    return this._status;
  }

  /** Why there is no newer reading; empty while the server answers. */
  get trouble(): string {
    return this._trouble;
  }

  /** Read again; rejects when the server did not answer well, so that a poll backs off. */
  async refresh(): Promise<void> {
    try {
      this._status = await fetchStatus(this.settings);
      this._trouble = '';
    } catch (error) {
      this._trouble = (error as Error).message;
      throw error;
    } finally {
      if (!this.isDisposed) {
        this.stateChanged.emit();
      }
    }
  }

  private _status: Status | null = null;
  private _trouble = '';
}
