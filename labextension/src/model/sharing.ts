/** Keeps what did not change, so that what shows it need not be drawn again. */

/** `fresh`, with every part of it that equals its part in `old` replaced by that very object. */
export function shared<T>(old: unknown, fresh: T): T {
  if (Object.is(old, fresh) || !isBranch(old) || !isBranch(fresh)) {
    return fresh;
  }
  if (Array.isArray(old) !== Array.isArray(fresh)) {
    return fresh;
  }
  const before = Array.isArray(old) ? byIdentity(old, fresh) : old;
  const keys = Object.keys(fresh);
  let same = keys.length === Object.keys(old).length;
  for (const key of keys) {
    const known = before[key];
    const kept = shared(known, fresh[key]);
    (fresh as Branch)[key] = kept;
    same = same && Object.is(kept, old[key]);
  }
  return (same ? old : fresh) as T;
}

type Branch = Record<string, unknown>;

function isBranch(value: unknown): value is Branch {
  return typeof value === 'object' && value !== null;
}

/** The old list in the order of the new one: a job that ended must not make all others look new. */
function byIdentity(old: unknown[], fresh: unknown): Branch {
  const known = new Map(old.map((item, i) => [identity(item, i), item]));
  const found = (fresh as unknown[]).map((item, i) =>
    known.get(identity(item, i))
  );
  return found as unknown as Branch;
}

function identity(item: unknown, index: number): unknown {
  const branch = isBranch(item) ? item : {};
  return branch.id ?? branch.uuid ?? index;
}
