import assert from 'node:assert/strict';
import test from 'node:test';

import { Writing, written } from '../lib/log/terminal.js';

/** What was shown by the plain way, which takes the square of the time. */
function plainly(text) {
  const lines = text.replace(/\r+\n/g, '\n').split('\n');
  return lines
    .map(line => {
      const [, body, open] = /^([^]*?)(\r*)$/.exec(line);
      const parts = body.split('\r').reduce((under, over) => {
        const covers = over.includes('\u001b') || under.includes('\u001b');
        return covers ? over || under : over + under.slice(over.length);
      });
      let shown = parts;
      while (/[^\b]\x08/.test(shown)) {
        shown = shown.replace(/[^\b]\x08/g, '');
      }
      return shown.replace(/\x08/g, '') + (open ? '\r' : '');
    })
    .join('\n');
}

test('plain text is appended', () => {
  assert.equal(written('a\n', 'b\nc'), 'a\nb\nc');
});

test('a progress bar is written over itself', () => {
  assert.equal(written('', ' 10 %\r 20 %\r 30 %'), ' 30 %');
  assert.equal(written('done\n 10 %', '\r 20 %'), 'done\n 20 %');
  assert.equal(written('long line', '\rx'), 'xong line');
});

test('a carriage return at the end waits for what follows', () => {
  const open = written('', 'one\r');
  assert.equal(open, 'one\r');
  assert.equal(written(open, '\n'), 'one\n');
  assert.equal(written(open, 'two'), 'two');
});

test('colours cover the whole line below them', () => {
  const red = '\u001b[31m1\u001b[0m';
  assert.equal(written('', `a long line\r${red}`), red);
  assert.equal(written('', `a long line\r${red}\rx`), 'x');
  assert.equal(written('', `a long line\r${red}\r`), `${red}\r`);
});

test('backspaces take letters away, and nothing where there are none', () => {
  assert.equal(written('', '\b\babc\b\bd'), 'ad');
});

test('whatever comes in whatever parts is shown as by the plain way', () => {
  let seed = 7;
  const random = below => (seed = (seed * 48271) % 2147483647) % below;
  const letters = ['a', 'b', 'cd', '\r', '\r', '\b', '\n', '\u001b[1m'];
  for (let run = 0; run < 20000; run++) {
    const text = Array.from({ length: random(14) }, () => letters[random(letters.length)]).join('');
    assert.equal(written('', text), plainly(text) , JSON.stringify(text));
  }
});

test('however it comes, it is looked at as a whole', () => {
  const writing = new Writing();
  ['one\ntw', 'o\r', 'T', '\nthree\n', '\b!'].forEach(part => writing.add(part));
  assert.equal(writing.lines, 4);
  assert.equal(writing.text, written('', 'one\ntwo\rT\nthree\n\b!'));
  writing.add('\b?');
  assert.equal(writing.text, 'one\nTwo\nthree\n?');
});

test('many small parts of one long line take no time', () => {
  for (const part of ['c\b', '\rb']) {
    const began = performance.now();
    const writing = new Writing();
    writing.add('a'.repeat(100_000));
    for (let count = 0; count < 100_000; count++) {
      writing.add(part);
    }
    assert.equal(writing.text.length, 100_000);
    assert.ok(performance.now() - began < 2000, `${performance.now() - began} ms`);
  }
});

for (const [what, text] of Object.entries({
  'carriage returns in a row': '\r'.repeat(300_000) + 'x',
  'carriage returns between letters': 'a\r'.repeat(300_000) + 'x',
  'backspaces behind as many letters': 'a'.repeat(300_000) + '\b'.repeat(300_000),
  'a long line, written over': 'a'.repeat(100_000) + '\rb'.repeat(100_000)
})) {
  test(`300,000 of one line take no time: ${what}`, () => {
    const began = performance.now();
    written('', text);
    assert.ok(performance.now() - began < 2000, `${performance.now() - began} ms`);
  });
}
