/** What every part of the panel is made of. Texts come from others' processes: React escapes them, and nothing here undoes it. */

import * as React from 'react';

import { Deed } from '../model/model';
import { formatDuration } from '../words/units';

/** Seconds since 1970, once a second: only what tells a time is drawn again by it. */
export const Now = React.createContext(0);

/** "2 h 4 min" since then; in brief, "2 h". */
export function Since(props: { time: number; brief?: boolean }): JSX.Element {
  const seconds = Math.max(0, React.useContext(Now) - props.time);
  const words = formatDuration(seconds);
  return <>{props.brief ? words.split(' ', 2).join(' ') : words}</>;
}

/** The server's clock, going on by itself between two readings. */
export function useClock(reading: number): number {
  const [now, setNow] = React.useState(reading);
  React.useEffect(() => {
    const ahead = reading - Date.now() / 1000;
    setNow(reading);
    const tick = () => setNow(Date.now() / 1000 + ahead);
    const timer = window.setInterval(tick, 1000);
    return () => window.clearInterval(timer);
  }, [reading]);
  return now;
}

/** Draws again only when a value that it is given has changed, or one of a list that it is given. */
export function memo<P extends object>(
  component: (props: P) => JSX.Element
): React.FunctionComponent<P> {
  const same = (a: unknown, b: unknown): boolean =>
    Array.isArray(a) && Array.isArray(b)
      ? a.length === b.length && a.every((item, i) => Object.is(item, b[i]))
      : Object.is(a, b);
  const alike = (before: P, after: P) =>
    (Object.keys(after) as (keyof P)[]).every(key =>
      same(before[key], after[key])
    );
  return React.memo(component, alike) as unknown as React.FunctionComponent<P>;
}

/** A screen reader speaks it when it changes, so the element is there before there is anything to say. */
export function Notice({ text }: { text: string }): JSX.Element {
  return (
    <div role="status" className={text && 'jp-gpufit-notice'}>
      <Sentence text={text} />
    </div>
  );
}

/** Our sentences set what can be typed between backticks. */
export function Sentence({ text }: { text: string }): JSX.Element {
  return (
    <>
      {text
        .split('`')
        .map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}
    </>
  );
}

/** A part of the panel that can be folded away. */
export function Section(props: {
  title: string;
  count: number;
  empty?: string;
  ordered?: boolean;
  folded?: boolean; // at first
  beside?: React.ReactNode; // the title
  below?: React.ReactNode; // the title, folded or not
  children: React.ReactNode;
}): JSX.Element {
  const id = React.useMemo(() => `jp-gpufit-${sections++}`, []);
  const [open, setOpen] = React.useState(!props.folded);
  const List = props.ordered ? 'ol' : 'ul';
  return (
    <section className="jp-gpufit-section" aria-labelledby={id}>
      <div className="jp-gpufit-line">
        <h3 id={id} aria-label={props.title}>
          <button
            type="button"
            className="jp-gpufit-fold"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
          >
            <Arrow open={open} />
            {props.title}
            <span className="jp-gpufit-count">{props.count || ''}</span>
          </button>
        </h3>
        {props.beside}
      </div>
      {props.below}
      {open && props.count === 0 && props.empty && (
        <p className="jp-gpufit-quiet">
          <Sentence text={props.empty} />
        </p>
      )}
      {open && props.count > 0 && <List>{props.children}</List>}
    </section>
  );
}

let sections = 0;

/** Points down when what it folds is open. */
export function Arrow({ open }: { open: boolean }): JSX.Element {
  return <span aria-hidden className="jp-gpufit-arrow" data-open={open} />;
}

/** What became of the last button: words of the server, where the button is. */
export function Outcome({ deed }: { deed: Deed | null }): JSX.Element {
  const refused = deed?.phase === 'refused';
  return (
    <p
      role={refused ? 'alert' : 'status'}
      className={refused ? 'jp-gpufit-problem' : 'jp-gpufit-quiet'}
    >
      <Sentence text={deed?.text ?? ''} />
    </p>
  );
}

/** A number of a card with its name; it has its place whether it is known yet or not. */
export function Figure(props: {
  name: string;
  children: React.ReactNode;
}): JSX.Element {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children || '–'}</dd>
    </div>
  );
}

/** A button that is never taken out of reach: one that cannot be used now says why. */
export function Button(props: {
  text: string;
  name: string; // with what it is about, for those who hear it alone
  why: string; // it cannot be used; empty: it can
  busy?: boolean;
  kind?: 'danger' | 'link';
  onClick: () => void;
}): JSX.Element {
  const { text, name, why, busy } = props;
  const off = why !== '' || busy;
  return (
    <button
      type="button"
      className="jp-gpufit-button"
      data-kind={props.kind}
      data-busy={busy}
      aria-busy={busy}
      aria-disabled={off}
      aria-label={why ? `${name}: ${why}` : name}
      title={why}
      onClick={off ? undefined : props.onClick}
    >
      {text}
    </button>
  );
}
