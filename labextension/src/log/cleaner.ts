/** Cleans HTML that nobody vouches for more than JupyterLab does: looking at a log asks nobody for anything. */

import { IRenderMime } from '@jupyterlab/rendermime';

// JupyterLab leaves a form without its fields, and pictures from anywhere: each would tell somebody who looks.
const GONE = 'base, embed, iframe, link, meta, object, script, style';
const UNWRAPPED = 'form, picture';
const LOADING = /^(src|srcset|poster|background|data|lowsrc|dynsrc|xlink:href)$/;
const ASKING = /^(data-.*|ping|action|formaction|on.*)$/; // data-commandlinker-command runs one of JupyterLab's commands
const INLINE = /^data:image\/(png|jpeg|gif|webp)[;,]/i;

export class Cleaner implements IRenderMime.ISanitizer {
  constructor(private base: IRenderMime.ISanitizer) {}

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    const clean = this.base.sanitize(dirty, options);
    // The text of a terminal is already without tags; nor is what we write the last word on what is safe.
    return options?.allowedTags ? clean : this.base.sanitize(quiet(clean), options);
  }

  getAutolink(): boolean {
    return this.base.getAutolink?.() ?? true;
  }

  get allowNamedProperties(): boolean {
    return this.base.allowNamedProperties ?? false;
  }

  get allowCommandLinker(): boolean {
    return false;
  }
}

/** Without what makes a browser ask for something, or do something at a click. */
function quiet(html: string): string {
  const { body } = new DOMParser().parseFromString(html, 'text/html'); // which loads nothing
  body.querySelectorAll(GONE).forEach(element => element.remove());
  body.querySelectorAll(UNWRAPPED).forEach(element => element.replaceWith(...element.childNodes));
  body.querySelectorAll('*').forEach(element => {
    for (const { name, value } of [...element.attributes]) {
      if (asks(element.localName, name, value)) {
        element.removeAttribute(name);
      }
    }
  });
  return body.innerHTML;
}

function asks(tag: string, name: string, value: string): boolean {
  if (name === 'style') {
    return /url|image-set|\\/i.test(value);
  }
  if (name === 'href') {
    return tag !== 'a';
  }
  return ASKING.test(name) || (LOADING.test(name) && !(name === 'src' && INLINE.test(value)));
}
