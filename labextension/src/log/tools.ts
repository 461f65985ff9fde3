/** What can be done with a log: find a text in it, copy it, take all of it away as a file. */

import { ServerConnection } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';

import { fetchJournal } from '../model/api';
import { written } from './terminal';

const PAGE = 1000; // entries
const COLOURS = /\x1b\[[0-9;]*[A-Za-z]/g;
const SPECIAL = /[.*+?^${}()|[\]\\/]/g;

/** Goes from one place of a text to the next, in what is shown. */
export function findItem(where: HTMLElement, leave: () => void): Widget {
  const item = new Widget();
  const field = document.createElement('input');
  const said = document.createElement('span');
  field.type = 'search';
  field.placeholder = 'Find';
  field.className = 'jp-gpufit-find';
  field.setAttribute('aria-label', 'Find in the log');
  said.setAttribute('role', 'status');
  said.className = 'jp-gpufit-quiet';
  let at = -1;
  const go = (by: number) => {
    const found = field.value ? places(where, field.value) : [];
    at = found.length ? (at + by + found.length) % found.length : -1;
    said.textContent = found.length ? `${at + 1} of ${found.length}` : field.value && 'nothing';
    const range = found[at];
    if (range) {
      leave();
      getSelection()?.removeAllRanges();
      getSelection()?.addRange(range);
      range.startContainer.parentElement?.scrollIntoView({ block: 'nearest' });
      const box = range.getBoundingClientRect();
      const view = where.getBoundingClientRect();
      if (box.top < view.top || box.bottom > view.bottom) {
        where.scrollTop += box.top - view.top - view.height / 2; // a block may be higher than the view
      }
    }
  };
  field.addEventListener('input', () => {
    at = -1;
    go(1);
  });
  field.addEventListener('keydown', event => {
    if (event.key === 'Enter') {
      event.preventDefault();
      go(event.shiftKey ? -1 : 1);
    }
  });
  item.node.append(field, said);
  return item;
}

/** In what the page shows, whatever its colours; a text does not go from one output into the next. */
function places(where: HTMLElement, text: string): Range[] {
  // Not by making both small: some letters have another length then.
  const wanted = new RegExp(text.replace(SPECIAL, '\\$&'), 'giu');
  return [...where.children].flatMap(block => placesIn(block, wanted));
}

function placesIn(block: Element, wanted: RegExp): Range[] {
  const parts: { node: Text; from: number }[] = [];
  const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  let words = '';
  while (walker.nextNode()) {
    const node = walker.currentNode as Text;
    parts.push({ node, from: words.length });
    words += node.data;
  }
  let at = 0;
  const to = (place: number): [Text, number] => {
    while (at + 1 < parts.length && parts[at + 1].from < place) {
      at++;
    }
    return [parts[at].node, place - parts[at].from];
  };
  return [...words.matchAll(wanted)].map(({ index, 0: text }) => {
    const range = document.createRange();
    const [first, after] = to(index + 1);
    range.setStart(first, after - 1);
    range.setEnd(...to(index + text.length));
    return range;
  });
}

/** Copies what is shown, or the part of it that is selected. */
export function copyItem(where: HTMLElement): Widget {
  return button('Copy', async () => {
    const chosen = getSelection();
    const own = chosen?.rangeCount && where.contains(chosen.getRangeAt(0).commonAncestorContainer);
    await navigator.clipboard.writeText((own && String(chosen)) || where.innerText);
  });
}

/** All that the job wrote, also what is not shown any more, as its terminal would show it. */
export function downloadItem(settings: ServerConnection.ISettings, job: string, name: string): Widget {
  return button('Download', async () => {
    let text = '';
    for (let after = 0; ; ) {
      const { entries, next } = await fetchJournal(settings, job, after, PAGE);
      for (const { event } of entries) {
        if (event.kind === 'text') {
          text += String(event.text);
        } else if (event.kind === 'failure') {
          text += (event.traceback as string[]).join('\n') + '\n';
        }
      }
      if (!entries.length) {
        break;
      }
      after = next;
    }
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([written('', text).replace(COLOURS, '')], { type: 'text/plain' }));
    link.download = `${name}-${job}.log`;
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

/** A button that says so when it is done, or why it could not be. */
function button(text: string, act: () => Promise<void>): Widget {
  const item = new Widget();
  const node = document.createElement('button');
  const said = document.createElement('span');
  said.setAttribute('role', 'status');
  said.className = 'jp-gpufit-quiet';
  node.type = 'button';
  node.className = 'jp-gpufit-tool';
  node.textContent = text;
  node.addEventListener('click', () => {
    said.textContent = '…';
    act().then(
      () => (said.textContent = 'done.'),
      error => (said.textContent = (error as Error).message)
    );
  });
  item.node.append(node, said);
  return item;
}
