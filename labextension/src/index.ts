/** Registers the panel with JupyterLab, in the right sidebar, and what goes with it elsewhere. */

import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { TabPanel } from '@lumino/widgets';

import { Cells } from './cells/cells';
import { Looks } from './cells/looks';
import { icon } from './icon';
import { Log, LogTab } from './log/log';
import { Events } from './model/events';
import { Front } from './model/front';
import { Follower } from './model/journal';
import { preferences } from './model/settings';
import { addCommands } from './panel/commands';
import { Notices } from './panel/notices';
import { GpufitPanel } from './panel/panel';
import { StatusItem } from './panel/statusbar';
import type { MakeLog } from './runs/page';
import { RunTab } from './runs/tabs';

const ID = 'jupyter-gpufit:panel';

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows the devices of this machine and your jobs on them.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [ICommandPalette, ILayoutRestorer, ISettingRegistry, IStatusBar],
  activate: async (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    statusBar: IStatusBar | null
  ) => {
    const settings = app.serviceManager.serverSettings;
    const events = new Events(settings);
    const front = new Front(app.shell);
    const panel = new GpufitPanel(settings, events, app.commands, front);
    panel.title.icon = icon;
    const { model } = panel;
    const show = () => app.shell.activateById(panel.id);
    // Notebook 7 has room for one thing in its main area, the notebook; what else there is stands below it.
    const below = 'notebook' in document.body.dataset;
    const place = (tab: LogTab | RunTab) => {
      tab.toggleClass('jp-gpufit-below', below);
      app.shell.add(tab, below ? 'down' : 'main', { mode: 'tab-after' });
    };
    const bring = (tab: LogTab | RunTab) => {
      app.shell.activateById(tab.id);
      const tabs = tab.parent?.parent;
      if (tabs instanceof TabPanel) {
        tabs.currentWidget = tab; // Notebook 7 shows what stands below, but not which of it
      }
    };
    new Cells(app.shell, model, (job, after) => new Follower(settings, events, job, after));
    new Looks(app.shell, model);

    const tracker = new WidgetTracker<LogTab>({ namespace: 'gpufit-log' });
    const openLog = ({ id, name }: { id: string; name: string }) => {
      const open = tracker.find(tab => tab.job === id);
      const tab = open ?? new LogTab({ id, name, settings, events, rendermime });
      if (!open) {
        tab.title.icon = icon;
        void tracker.add(tab);
        place(tab);
      }
      bring(tab);
    };
    const runs = new WidgetTracker<RunTab>({ namespace: 'gpufit-run' });
    const openRun = ({ id, name }: { id: string; name: string }) => {
      const open = runs.find(tab => tab.job === id);
      const log: MakeLog = job => new Log({ ...job, settings, events, rendermime });
      const tab = open ?? new RunTab({ id, name, model, commands: app.commands, log });
      if (!open) {
        tab.title.icon = icon;
        void runs.add(tab);
        place(tab);
      }
      bring(tab);
    };
    addCommands({ app, model, palette, openLog, openRun, show });

    app.shell.add(panel, 'right', { rank: 600 });
    restorer?.add(panel, panel.id);
    void restorer?.restore(tracker, {
      command: 'gpufit:log',
      args: tab => ({ job: tab.job, name: tab.name }),
      name: tab => tab.job
    });
    void restorer?.restore(runs, {
      command: 'gpufit:run',
      args: tab => ({ job: tab.job, name: tab.title.label, table: !tab.job }),
      name: tab => tab.job || 'all'
    });
    statusBar?.registerStatusItem(`${ID}-status`, {
      item: new StatusItem(model, show),
      align: 'left',
      rank: 600
    });

    const chosen = (await registry?.load(ID).catch(() => null)) ?? null;
    const read = () => (panel.preferences = preferences(chosen));
    chosen?.changed.connect(read);
    read();
    new Notices(model, () => preferences(chosen).notify, openLog);
  }
};

export default plugin;
