/** Shows journal entries as a notebook shows a cell's output, but never trusts them, and stays quick when there are many. */

import {
  IRenderMime,
  IRenderMimeRegistry,
  MimeModel
} from '@jupyterlab/rendermime';
import { ISignal, Signal } from '@lumino/signaling';
import { Panel, Widget } from '@lumino/widgets';

import { Entry } from '../words/schema';
import { missingWords, stateWords } from '../words/states';
import { stepWords } from '../words/units';
import { Cleaner } from './cleaner';
import { Reader } from './reader';
import { Writing } from './terminal';

const MOST_LINES = 200; // of text that one block has: a block is drawn as a whole
const MOST_BLOCKS = 1000; // kept; older ones go
const LINE = 17; // px, about: what the browser takes for a line that it has not drawn yet
const END = 30; // px; so near the end is at the end
const AT_ONCE = 8; // ms of work between two frames

type Bundle = Record<string, never>;

/** One stretch of text of one stream, or one display. */
interface Block {
  widget: Widget;
  renderer: IRenderMime.IRenderer | null; // of text
  stream: string; // 'stdout', 'stderr'; empty: not text
  text: Writing;
  display: string; // its display_id
  changed: boolean;
}

export class Output extends Panel {
  constructor(rendermime: IRenderMimeRegistry) {
    super();
    const sanitizer = new Cleaner(rendermime.sanitizer);
    this.rendermime = rendermime.clone({ sanitizer });
    this.addClass('jp-gpufit-output');
    this.addClass('jp-OutputArea');
    this.node.tabIndex = 0;
    this.node.setAttribute('role', 'log');
    this.node.setAttribute('aria-live', 'off'); // it may be ten thousand lines
    this._reader = new Reader(this.node);
    this.node.addEventListener('scroll', this._look, { passive: true });
  }

  /** It began to stay at the end, or does so no more. */
  get followed(): ISignal<this, boolean> {
    return this._followed;
  }

  /** Stay at the end when something comes. */
  get following(): boolean {
    return this._following;
  }
  set following(following: boolean) {
    if (following !== this._following) {
      this._following = following;
      this._followed.emit(following);
    }
    this._stayAtEnd();
    this._request();
  }

  /** Take in entries; they are shown as fast as the page can without getting stuck. */
  add(entries: Entry[]): void {
    for (const entry of entries) {
      this._waiting.push(entry);
    }
    this._request();
  }

  /** Go to what an entry showed. */
  reveal(number: number): void {
    const at = this._marks.get(number);
    if (at && !at.isDisposed) {
      this.following = false;
      at.node.scrollIntoView({ block: 'start' });
    }
  }

  /** Forget everything. */
  empty(): void {
    this._waiting = [];
    this._drop(this._blocks.length);
  }

  override dispose(): void {
    window.cancelAnimationFrame(this._frame);
    this._grown.disconnect();
    Signal.clearData(this);
    super.dispose();
  }

  private _request(): void {
    if (!this._frame && !this.isDisposed) {
      this._frame = window.requestAnimationFrame(() => {
        this._frame = 0;
        this._work();
      });
    }
  }

  private _work(): void {
    const until = performance.now() + AT_ONCE;
    let at = 0;
    while (this._hasRoom(at) && performance.now() < until) {
      this._show(this._waiting[at++]);
    }
    this._waiting.splice(0, at);
    this._blocks.filter(({ changed }) => changed).forEach(draw);
    this._forget();
    this._stayAtEnd();
    if (this._hasRoom(0)) {
      this._request();
    }
  }

  /** What somebody looks at is not taken away from above: the rest waits until they follow again. */
  private _hasRoom(at: number): boolean {
    const full = !this._following && this._blocks.length >= MOST_BLOCKS;
    return at < this._waiting.length && !full;
  }

  private _show({ number, time, event }: Entry): void {
    const data = event.data as Bundle;
    switch (event.kind) {
      case 'text':
        this._write(String(event.name), String(event.text));
        break;
      case 'display':
      case 'result':
        this._display(event, data);
        break;
      case 'failure':
        this._write('stderr', (event.traceback as string[]).join('\n') + '\n');
        break;
      case 'clear':
        this._clear(Boolean(event.wait));
        break;
      case 'note':
        this._say(number, String(event.text));
        break;
      case 'state':
        this._say(number, `${clock(time)} ${stateWords(event)}`);
        break;
      case 'saved':
        this._say(number, `${clock(time)} saved at ${stepWords(Number(event.step))}`);
        break;
      case 'not_saved':
        this._say(number, `${clock(time)} not saved: ${event.reason}`);
        break;
      case 'gap':
        this._say(number, missingWords(event));
        break;
    }
  }

  private _write(stream: string, text: string): void {
    this._clearNow();
    // A long text is cut, or its block would be drawn again and again as a whole.
    for (const part of text.match(PARTS) ?? []) {
      let last = this._blocks[this._blocks.length - 1];
      if (last?.stream !== stream || last.text.lines >= MOST_LINES) {
        last = this._text(stream);
      }
      last.text.add(part);
      last.changed = true;
    }
  }

  private _display(event: Entry['event'], data: Bundle): void {
    this._clearNow();
    const transient = event.transient as { display_id?: string } | undefined;
    const display = transient?.display_id ?? '';
    const known = this._blocks.filter(b => display && b.display === display);
    for (const block of event.update ? known : [this._append(new Panel())]) {
      block.display = display;
      fill(block.widget as Panel, this._rich(data, event.metadata as Bundle));
    }
  }

  /** Only what is safe from somebody whom nobody vouches for: HTML is cleaned, scripts stay text. */
  private _rich(data: Bundle, metadata: Bundle): Widget {
    const mime = this.rendermime.preferredMimeType(data, 'ensure');
    if (!mime) {
      const kinds = Object.keys(data).join(', ');
      return saying(`An output that cannot be shown here: ${kinds}`);
    }
    const renderer = this._renderer(mime);
    const model = new MimeModel({ data, metadata, trusted: false });
    void renderer.renderModel(model).catch(error => {
      renderer.node.textContent = `This output cannot be shown: ${error}`;
    });
    return renderer;
  }

  private _renderer(mime: string): IRenderMime.IRenderer {
    const renderer = this.rendermime.createRenderer(mime);
    renderer.addClass('jp-OutputArea-output');
    renderer.node.dataset.mimeType = mime;
    return renderer;
  }

  private _say(number: number, text: string): void {
    const { widget } = this._append(saying(text));
    this._marks.set(number, widget);
  }

  private _text(stream: string): Block {
    const renderer = this._renderer(`${MIME}${stream}`);
    return Object.assign(this._append(renderer), { renderer, stream });
  }

  private _append(widget: Widget): Block {
    widget.addClass('jp-gpufit-block');
    this.addWidget(widget);
    this._grown.observe(widget.node);
    const block = {
      widget,
      renderer: null,
      stream: '',
      text: new Writing(),
      display: '',
      changed: false
    };
    this._blocks.push(block);
    return block;
  }

  private _clear(wait: boolean): void {
    this._clearing = true;
    if (!wait) {
      this._clearNow();
    }
  }

  private _clearNow(): void {
    if (this._clearing) {
      this._clearing = false;
      this._drop(this._blocks.length);
    }
  }

  private _forget(): void {
    const over = this._blocks.length - MOST_BLOCKS;
    if (over > 0 && this._following) {
      this._drop(over);
    }
  }

  private _drop(count: number): void {
    for (const { widget } of this._blocks.splice(0, count)) {
      this._grown.unobserve(widget.node);
      widget.dispose();
    }
  }

  /** The reader went up to look at something, or came back to the end. */
  private _look = (): void => {
    const { scrollHeight, scrollTop, clientHeight } = this.node;
    const atEnd = scrollHeight - scrollTop - clientHeight < END;
    const up = scrollTop < this._top;
    if (!this._reader.moves(this._following)) {
      this._stayAtEnd(); // laid out anew, perhaps as it was before: then nothing has grown
    } else if (scrollTop !== this._top && atEnd !== up) {
      this.following = atEnd;
    }
    this._top = scrollTop;
  };

  private _stayAtEnd(): void {
    if (this._following) {
      this.node.scrollTop = this.node.scrollHeight;
    }
  }

  private rendermime: IRenderMimeRegistry;
  private _waiting: Entry[] = [];
  private _blocks: Block[] = [];
  private _marks = new Map<number, Widget>(); // where the notes and states are
  private _clearing = false;
  private _following = true;
  private _frame = 0;
  private _top = 0; // where it was scrolled to
  private _reader: Reader;
  private _followed = new Signal<this, boolean>(this);
  // What is drawn later than it was added has its height later, too.
  private _grown = new ResizeObserver(() => this._stayAtEnd());
}

const MIME = 'application/vnd.jupyter.';
const PARTS = /(?:[^\n]*\n){1,100}|[^\n]+$/g;

function draw(block: Block): void {
  const { widget, renderer, text, stream } = block;
  block.changed = false;
  widget.node.style.setProperty(
    'contain-intrinsic-block-size',
    `auto ${text.lines * LINE}px`
  );
  const data = { [`${MIME}${stream}`]: text.text };
  void renderer?.renderModel(new MimeModel({ data, trusted: false }));
}

function fill(panel: Panel, content: Widget): void {
  for (const old of [...panel.widgets]) {
    old.dispose();
  }
  panel.addWidget(content);
}

function saying(text: string): Widget {
  const widget = new Widget();
  widget.addClass('jp-gpufit-saying');
  widget.node.textContent = text;
  return widget;
}

export function clock(time: number): string {
  return new Date(time * 1000).toLocaleTimeString('en-GB');
}
