/** A job's journal as a cell's outputs. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { cardIn, hasWidget, lookIn, told, withoutView, Writer } from '../lib/cells/outputs.js';

/** What JupyterLab's own model does, but for drawing. */
class Outputs {
  list = [{ output_type: 'stream', name: 'stdout', text: 'of before' }];
  get length() {
    return this.list.length;
  }
  add(output) {
    const last = this.list.at(-1);
    if (output.output_type === 'stream' && last?.name === output.name) {
      last.text += output.text;
    } else {
      this.list.push({ ...output });
    }
    return this.length;
  }
  set(index, output) {
    this.list[index] = output;
  }
  clear() {
    this.list = [];
  }
}

const text = (name, words) => ({ kind: 'text', name, text: words });
const display = (id, words, update = false) => ({
  kind: 'display',
  data: { 'text/plain': words },
  metadata: {},
  transient: id ? { display_id: id } : {},
  update
});
const state = (name, device = '') => ({ kind: 'state', state: name, reason: '', device });

function written(...batches) {
  const outputs = new Outputs();
  const writer = new Writer(outputs, { id: 'j', name: 'bert' });
  for (const events of batches) {
    writer.write(events.map((event, at) => ({ number: at, time: 0, event })));
  }
  return outputs.list.map(one => one.text ?? one.data?.['text/plain'] ?? one.ename);
}

test('nothing is taken away before there is something to show', () => {
  assert.deepEqual(written(), ['of before']);
  assert.deepEqual(written([text('stdout', 'a')]), ['a']);
});

test('texts are joined, and keep their order between the streams', () => {
  const found = written([text('stdout', 'a'), text('stdout', 'b'), text('stderr', 'c')], [text('stdout', 'd')]);
  assert.deepEqual(found, ['ab', 'c', 'd']);
});

test('an error is told once', () => {
  const outputs = new Outputs();
  const writer = new Writer(outputs, { id: 'j', name: 'bert' });
  const failure = { kind: 'failure', ename: 'ValueError', evalue: 'no', traceback: ['ValueError: no'] };
  const failed = { ...state('failed'), reason: 'ValueError: no' };
  const lost = { ...state('lost'), reason: 'its worker is gone' };
  const said = event => {
    writer.write([{ number: 1, time: 0, event }]);
    return outputs.list.map(one => one.data?.['text/plain']).filter(Boolean);
  };
  said(failure);
  assert.deepEqual(said(failed), ['✗ bert: failed']);
  said(state('running'));
  assert.deepEqual(said(lost), ['✗ bert: lost: its worker is gone']);
});

test('the state has one line, in its place', () => {
  const found = written([state('queued'), text('stdout', 'a')], [state('running', 'cpu:0')], [state('done')]);
  assert.deepEqual(found, ['✓ bert: done', 'a']);
});

test('a display that changes stays where it is; one that is updated before it was seen comes', () => {
  const events = [display('h', 'half'), text('stdout', 'a'), display('h', 'all', true), display('', 'x'), display('', 'y')];
  assert.deepEqual(written(events), ['all', 'a', 'x', 'y']);
  assert.deepEqual(written([display('h', 'all', true)]), ['all']);
});

test('after a clear, places are counted anew', () => {
  const found = written([state('running'), display('h', 'half'), { kind: 'clear' }, display('h', 'all', true), state('done')]);
  assert.deepEqual(found, ['all', '✓ bert: done']);
});

test('an error is one, and a result is one', () => {
  const failure = { kind: 'failure', ename: 'ValueError', evalue: '', traceback: ['x'] };
  assert.deepEqual(written([{ kind: 'result', data: { 'text/plain': '3' } }, failure]), ['3', 'ValueError']);
});

test('a saved output tells its job and state, and whether a widget shows more', () => {
  const mark = { metadata: { gpufit: { job: 'j', state: 'running' } } };
  assert.deepEqual(told([{ output_type: 'stream' }, mark]), { job: 'j', state: 'running' });
  assert.equal(told([{ metadata: { gpufit: 'x' } }, {}]), null);
  const view = { data: { 'application/vnd.jupyter.widget-view+json': {} } };
  const card = { ...view, metadata: { gpufit: { job: 'j', state: 'running' } } };
  assert.equal(hasWidget([{ ...view, metadata: { gpufit: { output: true } } }]), true);
  assert.equal(hasWidget([card]), false);
  assert.deepEqual([cardIn([view, mark, card]), cardIn([view, mark])], [card, null]);
  assert.equal(hasWidget([view]), false); // the cell's own
  assert.equal(hasWidget([mark, {}]), false);
});

test('of an output that shows one of some widgets, the rest', () => {
  const view = { 'application/vnd.jupyter.widget-view+json': { model_id: 'w' } };
  const output = { output_type: 'display_data', data: { ...view, 'text/plain': 'x' }, metadata: {} };
  assert.deepEqual(withoutView(output, new Set('w')), { ...output, data: { 'text/plain': 'x' } });
  assert.equal(withoutView(output, new Set('v')), null);
  assert.equal(withoutView({ output_type: 'stream', text: 'x' }, new Set('w')), null);
});

test('widgets are drawn as they are where no kernel can be asked', () => {
  const says = (comm, what, state) => ({ kind: 'widget', comm, what, data: { state }, buffers: [] });
  const outputs = new Outputs();
  const writer = new Writer(outputs, { id: 'j', name: 'bert' });
  const write = (...events) => writer.write(events.map((event, number) => ({ number, time: 0, event })));
  const html = () => outputs.list[0].data['text/html'];

  write(
    says('1', 'open', { _model_name: 'IntProgressModel', description: 'a<b', value: 1, max: 4, min: 0 }),
    says('2', 'open', { _model_name: 'OutputModel', msg_id: '' }),
    says('3', 'open', { _model_name: 'ButtonModel', description: 'go' }),
    says('4', 'open', { _model_name: 'VBoxModel', children: ['IPY_MODEL_1', 'IPY_MODEL_2', 'IPY_MODEL_3'] }),
    { ...display('', 'VBox(children=…'), transient: { gpufit_widget: '4' } }
  );
  assert.match(html(), /a&lt;b.*value=\"25\.0\".*go/s);

  write(
    says('1', 'msg', { value: 2 }),
    says('2', 'msg', { msg_id: 'x' }),
    text('stdout', 'inside\n'),
    says('2', 'msg', { msg_id: '' }),
    text('stdout', 'after\n')
  );
  assert.match(html(), /value=\"50\.0\".*inside/s);
  assert.match(html(), /only be looked at/); // the button in it
  assert.deepEqual([outputs.length, outputs.list[1].text], [2, 'after\n']);

  write(
    says('5', 'open', { _model_name: 'PasswordModel', description: 'Token', value: 's3cret' }),
    { ...display('', 'Password(description=…'), transient: { gpufit_widget: '5' } },
    says('6', 'open', { _model_name: 'ImageModel' }), // its picture is in the buffers
    { ...display('', 'Image(value=…'), transient: { gpufit_widget: '6' } }
  );
  const all = outputs.list.map(one => one.data?.['text/html'] ?? '').join();
  assert.match(all, /Token ••••.*nothing in it that can be shown/s);
  assert.doesNotMatch(all, /s3cret/);

  write({ ...display('', 'IntSlider(value=…'), transient: { gpufit_widget: 'begun long ago' } });
  assert.doesNotMatch(outputs.list.map(one => one.data?.['text/html'] ?? '').join(), /IntSlider/);
});

test('a card stays above what comes, and has the state in its metadata', () => {
  const outputs = new Outputs();
  const card = { output_type: 'display_data', data: { view: 1 }, metadata: { gpufit: { job: 'j', state: 'running' } } };
  outputs.add(card);
  outputs.add({ output_type: 'stream', name: 'stdout', text: 'step 50\n' });
  const writer = new Writer(outputs, { id: 'j', name: 'bert' }, card);
  writer.write([text('stdout', 'step 50\n'), text('stdout', 'step 100\n')].map(event => ({ number: 1, time: 0, event })));
  assert.deepEqual([outputs.length, outputs.list[1].text], [2, 'step 50\nstep 100\n']);
  writer.say({ state: 'done', reason: '', device: '' });
  const { data, metadata } = outputs.list[0];
  assert.deepEqual([data.view, data['text/plain'], metadata.gpufit.state], [1, '✓ bert: done', 'done']);
});

test('a look that is told aside is known from one that is drawn, and from others\' widgets', () => {
  const view = { 'application/vnd.jupyter.widget-view+json': { model_id: 'w' } };
  const data = { ...view, 'text/plain': 'step 3' };
  const look = { 'text/plain': 'step 3' };
  const aside = { gpufit: { job: 'j', aside: true } };
  assert.deepEqual(lookIn({ data, metadata: aside }), { widget: 'w', look, aside: true });
  assert.deepEqual(lookIn({ data, metadata: { gpufit: { job: 'j' } } }), { widget: 'w', look, aside: false });
  assert.equal(lookIn({ data, metadata: {} }), null);
  assert.equal(lookIn({ data: look, metadata: aside }), null);
});

test('the line says what the kernel\'s own says', () => {
  const outputs = new Outputs();
  const writer = new Writer(outputs, { id: 'j', name: 'bert' });
  const line = (...entries) => {
    writer.write(entries.map(([time, event], number) => ({ number, time, event })));
    return outputs.list[0].data['text/plain'];
  };
  const mark = { kind: 'progress', step: 1204, used: 1 << 20, peak: 2 << 20, pace: '2.1 steps/s' };
  const saved = { kind: 'saved', step: 1200 };
  assert.equal(
    line([10, state('running', 'cpu:0')], [11, mark], [12, saved]),
    '▶ bert: running on cpu:0 · step 1,204 · 2.1 steps/s · 1.0 MiB, peak 2.0 MiB · saved at step 1,200'
  );
  const released = { ...state('released'), reason: 'released at step 1,204; `gpufit resume bert` goes on' };
  assert.equal(line([20, released]), '⏏ bert: released at step 1,204; `gpufit resume bert` goes on · 2.1 steps/s · peak 2.0 MiB');
  assert.match(line([28, state('running', 'cpu:1')], [29, { ...mark, peak: 1 << 20 }]), /1\.0 MiB, peak 2\.0 MiB ·/); // of all
  assert.match(line([30, state('running', 'cpu:1')], [75, state('done')]), /^✓ bert: done · .* · after 57 s$/); // both stretches
});
