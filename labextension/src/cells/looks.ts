/**
 * Puts into a notebook's file how our widgets look when it is saved.
 *
 * The kernel says it aside, in messages that belong to no output: drawn there, each would draw the widget anew.
 */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISignal } from '@lumino/signaling';

import { Notebook } from '../model/front';
import { GpufitModel } from '../model/model';
import { Data, lookIn, Outputs } from './outputs';
import { reopen, revive, type Book as Revived } from './revive';

/** What a notebook has, and nothing else of it: its class would cost a dependency. */
type Book = Notebook &
  Revived & {
    context: {
      model: { dirty: boolean };
      saveState: ISignal<unknown, string>;
    };
    content?: { widgets?: readonly Cell[] };
  };

interface Cell {
  node: HTMLElement;
  model: { outputs?: Outputs & { toJSON(): Data[] } };
}

export class Looks {
  constructor(
    private shell: JupyterFrontEnd.IShell,
    model: GpufitModel
  ) {
    model.stateChanged.connect(this._meet, this);
  }

  private _meet(): void {
    for (const book of this.shell.widgets('main') as Iterable<unknown> as Iterable<Book>) {
      if (book.context?.saveState && book.sessionContext?.iopubMessage && !this._met.has(book)) {
        this._met.add(book);
        keep(book);
        revive(book);
      }
      if (this._met.has(book)) {
        reopen(book);
      }
    }
  }

  private _met = new WeakSet<Book>();
}

function keep(book: Book): void {
  const looks = new Map<string, Data>(); // by widget
  book.sessionContext.iopubMessage.connect((_, { header, content }) => {
    const found = header.msg_type === 'update_display_data' ? lookIn(content as Data) : null;
    if (found?.aside) {
      looks.set(found.widget, found.look);
      book.context.model.dirty = true; // as by any output: so that it is saved by itself, too
    } else if (found) {
      looks.delete(found.widget); // this one is drawn
    }
  });
  book.context.saveState.connect((_, state) => {
    if (state === 'started' && looks.size) {
      put(book, looks);
    }
  });
}

/** Each is drawn anew by this; one that somebody uses just now is left for the next time. */
function put(book: Book, looks: Map<string, Data>): void {
  for (const { node, model } of book.content?.widgets ?? []) {
    const used = node.querySelector('.jp-OutputArea')?.contains(document.activeElement);
    (used ? [] : model.outputs?.toJSON() ?? []).forEach((output, index) => {
      const widget = lookIn(output)?.widget ?? '';
      const look = looks.get(widget);
      if (look) {
        looks.delete(widget);
        model.outputs!.set(index, { ...output, data: { ...(output.data as Data), ...look } });
      }
    });
  }
}
