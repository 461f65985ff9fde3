/** Lets node load what tsc made for a bundler: modules by name without an ending, in files that end in .js. */

import { readFile } from 'node:fs/promises';
import { register } from 'node:module';

const LIB = new URL('../lib/', import.meta.url).href;

export async function resolve(name, context, next) {
  const ours = name.startsWith('.') && context.parentURL?.startsWith(LIB);
  return next(ours && !name.endsWith('.js') ? `${name}.js` : name, context);
}

export async function load(url, context, next) {
  return url.startsWith(LIB)
    ? { format: 'module', source: await readFile(new URL(url)), shortCircuit: true }
    : next(url, context);
}

if (process.execArgv.some(word => word.includes('lib.mjs')) && !process.env.GPUFIT_LOADING) {
  process.env.GPUFIT_LOADING = '1';
  register(import.meta.url);
}
