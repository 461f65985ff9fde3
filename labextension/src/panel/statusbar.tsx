/** "GPU 1: bert-run 62 %" in the status bar, while a job of mine goes on. */

import { VDomRenderer } from '@jupyterlab/ui-components';
import * as React from 'react';

import { GpufitModel } from '../model/model';
import { summary } from '../words/states';

export class StatusItem extends VDomRenderer<GpufitModel> {
  constructor(
    model: GpufitModel,
    private onClick: () => void
  ) {
    super(model);
    this.addClass('jp-gpufit-status');
  }

  protected render(): JSX.Element | null {
    const text = this.model.status ? summary(this.model.status) : '';
    return text ? (
      <button
        type="button"
        className="jp-gpufit-link"
        title="Show GPUs and jobs"
        onClick={this.onClick}
      >
        {text}
      </button>
    ) : null;
  }
}
