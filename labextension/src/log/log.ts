/** Follows a job's journal, whether or not its cell is still there: in a tab of the main area, or in a run's page. */

import { MainAreaWidget } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ServerConnection } from '@jupyterlab/services';
import { Panel, Widget } from '@lumino/widgets';

import { Events } from '../model/events';
import { Follower } from '../model/journal';
import { Entry } from '../words/schema';
import { stateWords } from '../words/states';
import { clock, Output } from './output';
import { copyItem, downloadItem, findItem } from './tools';

const LATEST = -5000; // entries that are read at first

interface Options {
  id: string; // of the job
  name: string;
  settings: ServerConnection.ISettings;
  events: Events;
  rendermime: IRenderMimeRegistry;
}

export class Log extends Panel {
  constructor(options: Options) {
    const { id: job, name, settings, events, rendermime } = options;
    super();
    this.addClass('jp-gpufit-log');
    // Not JupyterLab's toolbar, in which arrows go from tool to tool: here some of them need their arrows themselves.
    const tools = new Panel();
    tools.addClass('jp-gpufit-tools');
    tools.node.setAttribute('role', 'group');
    this._output = new Output(rendermime);
    this._output.node.setAttribute('aria-label', `Output of ${name}`);
    this._output.followed.connect((_, following) => {
      this._following.checked = following;
    });
    this._notice.node.setAttribute('role', 'status');
    tools.node.setAttribute('aria-label', `Log of ${name}`);
    const find = findItem(this._output.node, () => (this._output.following = false));
    const [copy, download] = [copyItem(this._output.node), downloadItem(settings, job, name)];
    [this._state, this._momentsItem(), this._followItem(), find, copy, download].forEach(tool => tools.addWidget(tool));
    [tools, this._notice, this._output].forEach(part => this.addWidget(part));
    this._follow = after => {
      this._follower?.dispose();
      this._follower = new Follower(settings, events, job, after);
      this._follower.came.connect((_, entries) => this._take(entries));
      this._follower.changed.connect(() => this._tell());
    };
    this._follow(LATEST);
  }

  override dispose(): void {
    this._follower?.dispose();
    super.dispose();
  }

  private _take(entries: Entry[]): void {
    this._first ??= entries[0].number;
    this._output.add(entries);
    for (const { number, time, event } of entries) {
      if (event.kind === 'state') {
        const words = stateWords(event);
        this._state.node.textContent = words;
        const text = `${clock(time)} ${words}`;
        this._moments.add(new Option(text.slice(0, 80), String(number)));
      }
    }
  }

  private _tell(): void {
    const trouble = this._follower?.trouble ?? '';
    this._notice.node.textContent = trouble;
    this._notice.setHidden(!trouble);
  }

  private _momentsItem(): Widget {
    const select = this._moments;
    select.className = 'jp-gpufit-moments';
    select.setAttribute('aria-label', 'Go to a moment');
    this._resetMoments();
    select.addEventListener('change', () => {
      this._go(select.value);
      select.value = '';
    });
    const item = new Widget();
    item.node.append(select);
    return item;
  }

  private _resetMoments(): void {
    const always = [
      new Option('Go to…', ''),
      new Option('the start', 'start'),
      new Option('the end', 'end')
    ];
    this._moments.replaceChildren(...always);
  }

  private _go(to: string): void {
    this._output.following = to === 'end';
    if (to === 'start') {
      this._output.node.scrollTop = 0;
      if (this._first !== 1) {
        this._first = null;
        this._output.empty();
        this._resetMoments();
        this._follow(0);
      }
    } else if (to !== 'end') {
      this._output.reveal(Number(to));
    }
  }

  private _followItem(): Widget {
    const label = document.createElement('label');
    label.className = 'jp-gpufit-follow';
    this._following.type = 'checkbox';
    this._following.checked = true;
    this._following.addEventListener('change', () => {
      this._output.following = this._following.checked;
    });
    label.append(this._following, 'Follow the end');
    const item = new Widget();
    item.node.append(label);
    return item;
  }

  private _output: Output;
  private _follow: (after: number) => void; // from behind that entry on
  private _follower: Follower | null = null;
  private _first: number | null = null; // of the entries that are shown
  private _state = named('jp-gpufit-log-state');
  private _notice = named('jp-gpufit-notice');
  private _moments = document.createElement('select');
  private _following = document.createElement('input');
}

export class LogTab extends MainAreaWidget<Log> {
  constructor(options: Options) {
    super({ content: new Log(options) });
    const { id, name } = options;
    this.toolbar.hide();
    this.content.node.setAttribute('aria-label', `Log of ${name}`);
    [this.job, this.name] = [id, name];
    this.id = `jupyter-gpufit-log-${id}`;
    this.title.label = `Log of ${name}`; // the page of the run has its name
    this.title.caption = `Log of ${name} (${id})`;
    this.title.closable = true;
  }

  readonly job: string;
  readonly name: string;
}

function named(name: string): Widget {
  const widget = new Widget();
  widget.addClass(name);
  widget.setHidden(name === 'jp-gpufit-notice');
  return widget;
}
