/** What a terminal would show of written text: carriage returns and backspaces done; pure. */

/** `text` after `more` was written behind it. */
export function written(text: string, more: string): string {
  if (!/[\r\b]/.test(more) && !text.endsWith('\r')) {
    return text + more;
  }
  const start = text.lastIndexOf('\n') + 1;
  const lines = (text.slice(start) + more).replace(/\r+\n/g, '\n').split('\n');
  return text.slice(0, start) + lines.map(overwritten).join('\n');
}

/** One line, in which each carriage return goes back to the start. */
function overwritten(line: string): string {
  // One that ends the line has nothing behind it yet: what comes next decides.
  const [, body, open] = /^([^]*?)(\r*)$/.exec(line)!;
  const shown = body.split('\r').reduce((under, over) => {
    // Colours count as letters here, so what would be left of the line below them cannot be told.
    const covers = over.includes('\u001b') || under.includes('\u001b');
    return covers ? over || under : over + under.slice(over.length);
  });
  return erased(shown) + (open ? '\r' : '');
}

function erased(line: string): string {
  let text = line;
  while (/[^\b]\x08/.test(text)) {
    text = text.replace(/[^\b]\x08/g, '');
  }
  return text.replace(/\x08/g, '');
}
