/** What a terminal would show of written text: carriage returns and backspaces done, in one pass; pure. */

/**
 * Text that comes in parts, put together when it is looked at: were each part worked into a long line, thousands of small
 * ones would take the square of the time.
 */
export class Writing {
  lines = 1;

  add(part: string): void {
    this._parts.push(part);
    this.lines += part.split('\n').length - 1; // which nothing takes away
  }

  get text(): string {
    if (this._parts.length) {
      this._text = written(this._text, this._parts.join(''));
      this._parts = [];
    }
    return this._text;
  }

  private _text = '';
  private _parts: string[] = [];
}

/** `text` after `more` was written behind it. */
export function written(text: string, more: string): string {
  if (!/[\r\b]/.test(more) && !text.endsWith('\r')) {
    return text + more;
  }
  const start = text.lastIndexOf('\n') + 1;
  const lines = (text.slice(start) + more).split('\n');
  const last = lines.pop()!;
  // One that ends the text has nothing behind it yet: what comes next decides.
  const open = last.endsWith('\r') ? '\r' : '';
  return (
    text.slice(0, start) +
    lines.map(line => `${shown(line)}\n`).join('') +
    shown(last) +
    open
  );
}

/** One line; the carriage returns at its end are not done. */
function shown(line: string): string {
  let end = line.length;
  // Not by a regular expression: one tries each place of a long run anew.
  while (line[end - 1] === '\r') {
    end--;
  }
  return erased(overwritten(line.slice(0, end).split('\r')));
}

/** Each part is written over those before it, so the last one is looked at first. */
function overwritten(parts: string[]): string {
  let at = parts.length - 1;
  let text = parts[at];
  const first = lowest(parts);
  while (at-- > first) {
    text += parts[at].slice(text.length);
  }
  return text;
}

/**
 * The first part of which something may be seen. Colours count as letters here, so what would be left of a line with
 * colours cannot be told: it goes as soon as anything is written over it.
 */
function lowest(parts: string[]): number {
  let first = parts.length - 1;
  while (first > 0 && !parts[first].includes('\u001b')) {
    first--;
  }
  if (!parts[first].includes('\u001b')) {
    return first;
  }
  const over = parts.findIndex((part, at) => at > first && part);
  return over < 0 ? first : over;
}

function erased(line: string): string {
  if (!line.includes('\b')) {
    return line;
  }
  const left: string[] = [];
  for (const letter of line.split('')) {
    if (letter === '\b') {
      left.pop();
    } else {
      left.push(letter);
    }
  }
  return left.join('');
}
