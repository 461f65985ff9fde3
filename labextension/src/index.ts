/** Registers the panel with JupyterLab, in the right sidebar. */

import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { GpufitPanel } from './panel';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpufit:panel',
  description: 'Shows the devices of this machine and your jobs on them.',
  autoStart: true,
  optional: [ILayoutRestorer],
  activate: (app: JupyterFrontEnd, restorer: ILayoutRestorer | null) => {
    const panel = new GpufitPanel(app.serviceManager.serverSettings);
    app.shell.add(panel, 'right', { rank: 600 });
    restorer?.add(panel, panel.id);
  }
};

export default plugin;
