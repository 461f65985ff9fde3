/** Which job's output a cell gets. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Cells } from '../lib/cells/cells.js';

const silent = { connect() {} };

/** A notebook with one cell, which shows nothing yet. */
const book = path => {
  const outputs = { length: 0, add() {}, set() {}, clear() {}, toJSON: () => [] };
  const cell = { isDisposed: false, model: { id: 'a cell', type: 'code', isDisposed: false, outputs } };
  return { context: { path }, sessionContext: { session: null }, content: { widgets: [cell] } };
};
const job = (id, notebook, created) => ({ id, name: id, notebook, created, cell: 'a cell', kernel_id: '', state: 'running' });

test('a cell of a notebook that was copied has the output of its own job', () => {
  const followed = [];
  let look;
  const stateChanged = { connect: (act, self) => (look = () => act.call(self)) };
  const jobs = [job('first', 'one.ipynb', 1), job('second', 'its copy.ipynb', 2), job('older', 'its copy.ipynb', 0)];
  const shell = { widgets: () => [book('one.ipynb'), book('its copy.ipynb')] };
  new Cells(shell, { stateChanged, status: { jobs } }, id => {
    followed.push(id);
    return { came: silent, changed: silent };
  });
  look();
  assert.deepEqual(followed, ['first', 'second']);
});
