/** Where somebody who follows a journal has come to; pure. */

import { Entry } from '../words/schema';

export class Place {
  /** Behind the entry `after`; -1000: before the last thousand. */
  constructor(public after: number) {}

  /**
   * The number of the question whose answers count. Whoever asks from further back must not take what still comes for
   * somebody else, the very last entries, for all there is.
   */
  question = 0;

  /** Those entries that are news: a connection that was made anew may bring again what there is. */
  fresh(entries: Entry[]): Entry[] {
    const found = entries.filter(({ number }) => number > this.after);
    this.after = found[found.length - 1]?.number ?? this.after;
    return found;
  }
}
