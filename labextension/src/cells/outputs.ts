/** Writes journal entries as a cell's own outputs, as its kernel would have; pure, but for what it is given. */

import { Line, Told } from '../words/line';
import { Entry, OVER } from '../words/schema';
import { missingWords } from '../words/states';
import { Widgets } from '../words/widgets';

const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';

const STATE = 'the state'; // where it is told
const ONLY_SEEN = 'No kernel answers for these now: they can only be looked at.';

export type Data = Record<string, unknown>;

/** What a cell's model of outputs can do, and nothing else of it. */
export interface Outputs {
  length: number;
  add(output: Data): number; // how many there are then
  set(index: number, output: Data): void;
  clear(wait?: boolean): void;
}

export class Writer {
  /** `card`: the output that has the job's card, which its kernel goes on changing; it stays, and tells the state. */
  constructor(
    private outputs: Outputs,
    private job: { id: string; name: string },
    readonly card: Data | null = null
  ) {
    this._line = new Line(job.name);
  }

  write(entries: Entry[]): void {
    if (!this._begun) {
      this._begun = true;
      this.outputs.clear(); // not before there is something to put in its place
      if (this.card) {
        this._put(STATE, this.card);
      }
    }
    let changed = false;
    for (const entry of joined(entries)) {
      const news = this._line.take(entry) && (!this.card || entry.event.kind === 'state'); // or it is drawn each second
      changed = news || changed;
      if (!this._widgets.caught(entry.event)) {
        this._write(entry.event);
      }
    }
    this._drawWidgets();
    if (changed && this._places.has(STATE)) {
      this._say(); // once for all of them
    }
  }

  private _write(event: Entry['event']): void {
    switch (event.kind) {
      case 'widget':
        this._widgets.take(event);
        break;
      case 'text':
        this.outputs.add({ output_type: 'stream', name: event.name, text: event.text });
        break;
      case 'display':
        this._display(event);
        break;
      case 'result':
        this.outputs.add({ ...bundle(event), output_type: 'execute_result', execution_count: null });
        break;
      case 'failure':
        this._failed = true;
        this.outputs.add({
          output_type: 'error',
          ename: event.ename,
          evalue: event.evalue,
          traceback: event.traceback
        });
        break;
      case 'clear':
        this.outputs.clear(Boolean(event.wait));
        this._places.clear();
        this._shown.clear();
        break;
      case 'state':
        this._state = String(event.state);
        this._failed = this._failed && OVER.has(this._state as never); // else it was resumed
        if (!this._places.has(STATE)) {
          this._say();
        }
        break;
      case 'gap':
        this.outputs.add(quiet(missingWords(event)));
        break;
    }
  }

  private _display(event: Entry['event']): void {
    const transient = event.transient as { display_id?: string; gpufit_widget?: string } | undefined;
    const { display_id = '', gpufit_widget: widget } = transient ?? {};
    if (widget) {
      const name = display_id || `a view of ${widget}, the ${this._shown.size + 1}th`;
      this._shown.set(name, widget);
      this._put(name, this._view(widget));
    } else {
      this._shown.delete(display_id);
      this._put(display_id, { ...bundle(event), output_type: 'display_data' });
    }
  }

  /** A widget, which no kernel can be asked for now, as it looks. */
  private _view(widget: string): Data {
    const why = this._widgets.knows(widget)
      ? 'a widget with nothing in it that can be shown without its job'
      : 'a widget whose beginning is no longer in the journal';
    const only = this._widgets.hasControls(widget) ? `<small>${ONLY_SEEN}</small>` : '';
    const html = this._widgets.html(widget) ? this._widgets.html(widget) + only : `<i>${why}</i>`;
    const data = { 'text/plain': 'a widget', 'text/html': html };
    return { output_type: 'display_data', data, metadata: {} };
  }

  private _drawWidgets(): void {
    for (const [name, widget] of this._shown) {
      if (this._widgets.changed(widget)) {
        this._put(name, this._view(widget));
      }
    }
    this._widgets.drawn();
  }

  /** What no journal tells: a job that was lost. */
  say({ state, reason, device }: Told): void {
    this.write([{ number: 0, time: 0, event: { kind: 'state', state, reason, device } }]);
  }

  /** One line for the job's state, in its place; by its metadata it is known when the file is opened again. */
  private _say(): void {
    const line = quiet(this._line.text(this._failed));
    const metadata = { gpufit: { job: this.job.id, state: this._state } };
    // In the notebook's file the line stands for the card, whose numbers were those of before the reload.
    const data = { ...(this.card?.data as Data | undefined), ...(line.data as Data) };
    this._put(STATE, { ...line, data, metadata });
  }

  private _put(name: string, output: Data): void {
    const at = this._places.get(name);
    if (name && at !== undefined) {
      this.outputs.set(at, output);
      return;
    }
    const count = this.outputs.add(output);
    if (name) {
      this._places.set(name, count - 1);
    }
  }

  private _begun = false;
  private _failed = false;
  private _state = '';
  private readonly _line: Line;
  private _widgets = new Widgets();
  private _shown = new Map<string, string>(); // views of widgets, by their places
  private _places = new Map<string, number>(); // of displays, by what they are called
}

/** With neighbouring texts of one stream as one: each is drawn as a whole. */
export function joined(entries: Entry[]): Entry[] {
  const found: Entry[] = [];
  for (const entry of entries) {
    const last = found[found.length - 1];
    const { event } = entry;
    if (event.kind === 'text' && last?.event.kind === 'text' && last.event.name === event.name) {
      last.event = { ...last.event, text: `${last.event.text}${event.text}` };
    } else {
      found.push({ ...entry });
    }
  }
  return found;
}

/** Whether the job's output stands in a widget of ours: while its kernel lives, that shows what there is. */
export function hasWidget(outputs: Data[]): boolean {
  return outputs.some(output => ours(output)?.output === true);
}

/** The job's card, if the cell has one; its output stands below it. */
export function cardIn(outputs: Data[]): Data | null {
  return outputs.find(output => ours(output)?.output === false) ?? null;
}

/** How a widget of ours looks by now, where a kernel's update tells it; `aside`: no output shows it yet. */
export function lookIn({ data, metadata }: Data): { widget: string; look: Data; aside: boolean } | null {
  const { gpufit } = (metadata ?? {}) as { gpufit?: Data };
  const { [WIDGET_VIEW]: view, ...look } = (data ?? {}) as Data;
  const widget = (view as { model_id?: unknown } | undefined)?.model_id;
  return gpufit && typeof widget === 'string' ? { widget, look, aside: gpufit.aside === true } : null;
}

/** An output that shows one of these widgets, without it. */
export function withoutView(output: Data, widgets: Set<string>): Data | null {
  const { [WIDGET_VIEW]: view, ...rest } = (output.data ?? {}) as Data;
  const shown = (view as { model_id?: string } | undefined)?.model_id;
  return shown && widgets.has(shown) ? { ...output, data: rest } : null;
}

/** The mark of a widget of ours, and not one that the cell made. */
function ours({ data, metadata }: Data): { output: boolean } | null {
  const { gpufit } = (metadata ?? {}) as { gpufit?: Data };
  return gpufit && WIDGET_VIEW in ((data ?? {}) as Data) ? { output: gpufit.output === true } : null;
}

/** The job and the state that a saved output tells of, if it does. */
export function told(outputs: Data[]): { job: string; state: string } | null {
  for (const output of outputs) {
    const { gpufit } = (output.metadata ?? {}) as { gpufit?: { job?: unknown; state?: unknown } };
    if (typeof gpufit?.job === 'string' && typeof gpufit.state === 'string') {
      return { job: gpufit.job, state: gpufit.state };
    }
  }
  return null;
}

function bundle({ data, metadata }: Entry['event']): Data {
  return { data, metadata: metadata ?? {} };
}

function quiet(text: string): Data {
  const escaped = text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
  const typed = escaped.replace(/`([^`]*)`/g, '<code>$1</code>'); // as in the notebook's own lines
  const html = `<div style="opacity:.7;font-size:90%">${typed}</div>`;
  return { output_type: 'display_data', data: { 'text/plain': text, 'text/html': html }, metadata: {} };
}
