/**
 * Draws widgets anew that have come back under their names: an earlier cell's, of a job that outlived its kernel.
 *
 * A restart of the kernel cuts them off. Where a kernel attaches to the job it has mirrors of them (notebook/mirrors.py),
 * of which the drawings that stand in the page know nothing.
 */

import { ISignal } from '@lumino/signaling';

import { Data, Outputs, withoutView } from './outputs';

const SOON = 250; // ms: several come at once

/** What a notebook has, and nothing else of it. */
interface Book {
  content?: { widgets?: readonly { model: { outputs?: Outputs & { toJSON(): Data[] } } }[] };
  sessionContext: { iopubMessage: ISignal<unknown, { header: { msg_type: string }; content: unknown }> };
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
