import assert from 'node:assert/strict';
import test from 'node:test';

import { asCsv, COLUMNS, sorted } from '../lib/words/table.js';

const run = (id, more = {}) => ({
  id,
  name: 'bert',
  state: 'done',
  began: 1e9,
  created: 1e9,
  since: 2e9,
  ran: 60,
  progress: { step: 10 },
  loss: null,
  memory: null,
  device: '',
  notebook: '/a/b.ipynb',
  ...more
});

test('by any column, and what has no value last', () => {
  const runs = [run('a', { loss: { value: 0.5 } }), run('b'), run('c', { loss: { value: 0.25 } })];
  const ids = falling => sorted(runs, 'loss', falling, 0).map(({ id }) => id).join('');
  assert.equal(ids(false), 'cab');
  assert.equal(ids(true), 'acb');
});

test('a CSV has what was measured, quoted where it must be, and no formula of a name', () => {
  const [head, first, second] = asCsv([run('a', { name: 'x, "y"' }), run('b', { name: '=1+1' })], 0).split('\r\n');
  assert.equal(head, COLUMNS.map(({ key }) => key).join());
  assert.equal(first, '"x, ""y""",done,2001-09-09T01:46:40.000Z,60,10,,,,/a/b.ipynb,a');
  assert.ok(second.startsWith("'=1+1,"));
});
