/**
 * How the widgets of a job's cell look, as HTML, for a page that has no kernel to ask; pure.
 *
 * After a reload JupyterLab cannot ask a kernel that is in the middle of a cell which widgets there are. The journal has
 * all that they said. So they are drawn as they are, and go on moving; to be used, the cell is run again. JupyterLab takes
 * styles away from what it does not trust: all is drawn by the elements alone.
 */

import { Entry } from './schema';
import { formatFigure } from './units';

type Event = Entry['event'];
type State = Record<string, unknown>;

const REFERENCE = /^IPY_MODEL_(.+)$/;
// eslint-disable-next-line no-control-regex
const COLOURS = /\u001b\[[0-9;]*m/g;
const LONGEST = 100_000; // characters that an Output shows: the last ones
const DEEPEST = 20; // boxes in each other
const CONTROLS = /Button|Slider|Text|Dropdown|Select|Check|Toggle|Picker|Radio|Combobox|Upload|Play/;

export class Widgets {
  /** Take in what a widget said. */
  take(event: Event): void {
    const id = String(event.comm);
    const { state } = (event.data ?? {}) as { state?: State };
    if (event.what === 'close' || !state) {
      return; // what it looked like stays, as where a kernel has it
    }
    const known = this._states.get(id);
    this._states.set(id, { ...known, ...state });
    this._changed.add(id);
    if (state._model_name === 'OutputModel' || known?._model_name === 'OutputModel') {
      this._note(id, state);
    }
  }

  /** Whether an Output has caught what was shown; it is then part of it. */
  caught(event: Event): boolean {
    const id = this._catching[this._catching.length - 1];
    if (id === undefined || !['text', 'display', 'result', 'failure', 'clear'].includes(event.kind)) {
      return false;
    }
    const text = event.kind === 'clear' ? '' : (this._texts.get(id) ?? '') + wordsOf(event);
    this._texts.set(id, text.slice(-LONGEST));
    this._changed.add(id);
    return true;
  }

  /** Whether this one, or what is in it, has changed since it was last asked. */
  changed(id: string): boolean {
    return this._parts(id).some(part => this._changed.has(part));
  }

  /** All changes have been drawn. */
  drawn(): void {
    this._changed.clear();
  }

  /** What it looks like; empty: its beginning is not in the journal any more. */
  html(id: string, depth = 0): string {
    const state = this._states.get(id);
    if (!state || depth > DEEPEST) {
      return '';
    }
    const name = String(state._model_name ?? '');
    const children = references(state);
    if (children.length) {
      const inside = children.map(child => this.html(child, depth + 1));
      return name === 'HBoxModel'
        ? `<table><tr><td>${inside.join('</td><td>')}</td></tr></table>`
        : `<div>${inside.join('')}</div>`;
    }
    if (name === 'OutputModel') {
      return `<pre>${escaped(this._texts.get(id) ?? '')}</pre>`;
    }
    return one(name, state);
  }

  /** Whether there is something in it that one would press, move or write into. */
  hasControls(id: string): boolean {
    return this._parts(id).some(part => CONTROLS.test(String(this._states.get(part)?._model_name ?? '')));
  }

  /** An Output says by its `msg_id` that it catches what is printed from now on. */
  private _note(id: string, state: State): void {
    if ('msg_id' in state) {
      this._catching = this._catching.filter(other => other !== id);
      if (state.msg_id) {
        this._catching.push(id);
      }
    }
  }

  /** Whether the journal has its beginning. */
  knows(id: string): boolean {
    return this._states.has(id);
  }

  private _parts(id: string, depth = 0): string[] {
    const state = this._states.get(id);
    const inside = state && depth <= DEEPEST ? references(state) : [];
    return [id, ...inside.flatMap(child => this._parts(child, depth + 1))];
  }

  private _states = new Map<string, State>();
  private _texts = new Map<string, string>(); // of Outputs
  private _catching: string[] = []; // the innermost last
  private _changed = new Set<string>();
}

function references({ children }: State): string[] {
  const found = Array.isArray(children) ? children : [];
  return found.flatMap(child => REFERENCE.exec(String(child))?.[1] ?? []);
}

/** A widget that has no others in it: what it says of itself decides, and not which class it is of. */
function one(name: string, state: State): string {
  const { value, max, min, index } = state;
  const label = state.description ? `${escaped(String(state.description))} ` : '';
  if (name.startsWith('Password')) {
    return `<div>${label}••••</div>`; // this stays in the notebook's file
  }
  if (name.startsWith('HTML')) {
    return `<div>${label}${String(value ?? '')}</div>`;
  }
  if (typeof value === 'number' && typeof max === 'number') {
    const least = typeof min === 'number' ? min : 0;
    const share = max > least ? (100 * (value - least)) / (max - least) : 0;
    const drawn = `<progress max="100" value="${Math.min(100, Math.max(0, share)).toFixed(1)}"></progress>`;
    return `<div>${label}${drawn} ${formatFigure(value)}</div>`;
  }
  if (typeof value === 'boolean') {
    return `<div>${value ? '☑' : '☐'} ${label}</div>`;
  }
  const labels = state._options_labels;
  if (Array.isArray(labels)) {
    const chosen = [index].flat().map(at => labels[at as number] ?? '');
    return `<div>${label}<b>${escaped(chosen.join(', '))}</b></div>`;
  }
  if (value === undefined) {
    return label ? `<div><kbd>${label.trim()}</kbd></div>` : '';
  }
  const words = typeof value === 'string' || typeof value === 'number' ? value : JSON.stringify(value);
  return `<div>${label}${escaped(String(words))}</div>`;
}

function wordsOf(event: Event): string {
  switch (event.kind) {
    case 'text':
      return String(event.text);
    case 'failure':
      return `${(event.traceback as string[]).join('\n').replace(COLOURS, '')}\n`;
    default:
      return `${String((event.data as State)?.['text/plain'] ?? '')}\n`;
  }
}

function escaped(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}
