/**
 * Draws widgets anew that have come back under their names: an earlier cell's, of a job that outlived its kernel.
 *
 * A restart of the kernel cuts them off. Where a kernel attaches to the job it has mirrors of them (notebook/mirrors.py),
 * of which the drawings that stand in the page know nothing. And a page that is slow may hear too late of a kernel's
 * widgets, which asks for them once more (notebook/reopened.py).
 */

import { ISignal } from '@lumino/signaling';

import { Data, Outputs, withoutView } from './outputs';

const SOON = 250; // ms: several come at once
const LATE = 6000; // ms: by then a page has its widgets, or has given up
const REOPEN = 'jupyter-gpufit-reopen'; // as notebook/reopened.py has it
const UNDRAWN = '.jp-OutputArea-output.lm-Panel:not(:has(*))'; // a widget's place, with words alone

/** What a notebook has, and nothing else of it. */
export interface Book {
  node: HTMLElement;
  content?: { widgets?: readonly { model: { outputs?: Outputs & { toJSON(): Data[] } } }[] };
  sessionContext: {
    iopubMessage: ISignal<unknown, { header: { msg_type: string }; content: unknown }>;
    session: { kernel: Kernel | null } | null;
  };
}

interface Kernel {
  status: string; // 'unknown' to a page that was loaded while it is busy
  connectionStatus: string;
  handleComms: boolean;
  createComm(target: string): { open(): unknown };
}

export function revive(book: Book): void {
  let back = new Set<string>();
  book.sessionContext.iopubMessage.connect((_, { header, content }) => {
    const { comm_id: id, target_name: target } = content as Record<string, string>;
    if (header.msg_type === 'comm_open' && target === 'jupyter.widget') {
      if (!back.size) {
        window.setTimeout(() => {
          draw(book, back);
          back = new Set();
        }, SOON);
      }
      back.add(id);
    }
  });
}

/** What a cell shows for the first time is not there yet when its line is opened. */
function draw(book: Book, back: Set<string>): void {
  for (const { model } of book.content?.widgets ?? []) {
    (model.outputs?.toJSON() ?? []).forEach((output, index) => {
      const rest = withoutView(output, back);
      if (rest) {
        model.outputs!.set(index, rest); // else the same renderer would have both
        model.outputs!.set(index, output);
      }
    });
  }
}

const waiting = new WeakMap<Kernel, number>(); // since when something is not drawn

/** While a cell runs that waits, what is not drawn by now would be drawn when it has ended. */
export function reopen({ node, sessionContext }: Book): void {
  const kernel = sessionContext.session?.kernel;
  const reached = kernel?.connectionStatus === 'connected' && kernel.handleComms;
  if (!reached || kernel.status === 'idle' || !node.querySelector(UNDRAWN)) {
    return;
  }
  const now = performance.now();
  const since = waiting.get(kernel) ?? now;
  waiting.set(kernel, since);
  if (now - since > LATE) {
    waiting.set(kernel, Infinity); // once for each kernel of the page
    kernel.createComm(REOPEN).open();
  }
}
