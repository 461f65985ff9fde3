/** Where a file stands in the server's own tree; pure. */

/** The contents path of a file, under a root that the server may have written with a ~. */
export function contentsPath(file: string, root: string): string {
  const place = root.replace(/\/+$/, '');
  if (!file.startsWith('/')) {
    return file;
  }
  if (!place.startsWith('~')) {
    return file.startsWith(`${place}/`) ? file.slice(place.length + 1) : file;
  }
  // Where the home directory is, the server does not say; mostly in one of these.
  const home = /^\/(?:root|(?:home|Users)\/[^/]+)(?=\/)/.exec(file)?.[0] ?? '';
  const under = home + place.slice(1);
  return file.startsWith(`${under}/`) ? file.slice(under.length + 1) : file;
}
