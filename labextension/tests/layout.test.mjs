/** The rules of the house, read from the sources: what a folder may know, and where states are told apart. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';

import { BEFORE, GOING, OVER } from '../lib/words/schema.js';

const SRC = new URL('../src/', import.meta.url);
const KNOWS = {
  words: ['words'],
  model: ['words', 'model'],
  log: ['words', 'model', 'log'],
  panel: ['words', 'model', 'panel'],
  cells: ['words', 'model', 'cells'],
  runs: ['words', 'model', 'runs'],
  '': ['words', 'model', 'log', 'panel', 'cells', 'runs', ''] // index.ts
};
const SOURCES = readdirSync(SRC, { recursive: true })
  .map(path => path.replaceAll('\\', '/'))
  .filter(path => /\.tsx?$/.test(path))
  .map(path => ({ path, folder: folderOf(path), text: readFileSync(new URL(path, SRC), 'utf8') }));

function folderOf(path) {
  return path.split('/').slice(0, -1).join('/');
}

/** What stands between the quotes of a source's imports; of types, too. */
function imported({ text }) {
  return [...text.matchAll(/\b(?:from|import)\b\s*\(?\s*['"]([^'"]+)['"]/g)].map(([, name]) => name);
}

test('imports point one way: words <- model <- log, panel, runs and cells <- index', () => {
  const arrows = SOURCES.flatMap(source =>
    imported(source)
      .filter(name => name.startsWith('.'))
      .map(name => ({ source, to: new URL(name, new URL(source.path, SRC)).href.slice(SRC.href.length) }))
  );
  const wrong = arrows.filter(({ source, to }) => !KNOWS[source.folder]?.includes(folderOf(to)));
  assert.deepEqual(wrong.map(({ source, to }) => `${source.path} imports ${to}`), []);
  for (const folder of Object.keys(KNOWS)) {
    assert.ok(arrows.some(({ source }) => source.folder === folder), `a rule over nothing would hold: ${folder}`);
  }
});

test('words are plain functions: they know no library', () => {
  const wrong = SOURCES.filter(({ folder }) => folder === 'words')
    .flatMap(source => imported(source).map(name => [source.path, name]))
    .filter(([, name]) => !name.startsWith('.'));
  assert.deepEqual(wrong, []);
});

test('states are told apart by the words alone, and their sets come from the server', () => {
  const state = new RegExp(`'(${[...BEFORE, ...GOING, ...OVER].join('|')})'`);
  const wrong = SOURCES.filter(({ folder, text }) => folder !== 'words' && state.test(text));
  assert.deepEqual(wrong.map(({ path }) => path), []);
  const sets = SOURCES.filter(({ path, text }) => path !== 'words/schema.ts' && /new Set(<[^>]*>)?\(\[\s*'/.test(text));
  assert.deepEqual(sets.map(({ path }) => path), []);
});
