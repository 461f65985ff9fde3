/** Tells a reader who scrolls from a page that lays itself out anew: another theme or width scrolls, too. */

const AFTER = 500; // ms, within which what a hand did is still seen; a wheel may roll on

const BEGINS = ['wheel', 'keydown', 'pointerdown', 'touchmove'];
const ENDS = ['pointerup', 'pointercancel'];

export class Reader {
  constructor(node: HTMLElement) {
    for (const kind of BEGINS) {
      node.addEventListener(kind, this._act, { passive: true });
    }
  }

  /** Whether what is scrolled just now is scrolled by the reader; `held`: something else would scroll it back. */
  moves(held: boolean): boolean {
    const now = performance.now();
    const moves = this._down || now - this._acted < AFTER;
    if (moves && !held) {
      this._acted = now; // rolls on
    }
    return moves;
  }

  private _act = ({ type }: Event): void => {
    this._acted = performance.now();
    if (type === 'pointerdown' && !this._down) {
      this._down = true; // on the bar, or to mark a text; it may be let go of anywhere
      ENDS.forEach(end => window.addEventListener(end, this._letGo, { once: true }));
    }
  };

  private _letGo = (): void => {
    this._down = false;
    this._acted = performance.now();
    ENDS.forEach(end => window.removeEventListener(end, this._letGo));
  };

  private _acted = -AFTER;
  private _down = false;
}
