/** The buttons of a job. Each runs a command, so that the palette and a shortcut do the very same. */

import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { Deed } from '../model/model';
import { Job, Target, Verb, WORDS } from '../words/schema';
import { hasEnded, offered } from '../words/states';
import { deviceWords } from '../words/units';
import { Button } from './common';

export function Buttons(props: {
  job: Job;
  deed: Deed | null;
  commands: CommandRegistry;
  children?: React.ReactNode; // what only some jobs have
}): JSX.Element {
  const { job, deed, commands } = props;
  const { can, id, name, under_way } = job;
  const sent = deed?.phase === 'sent' ? deed.action : null;
  const run = (command: string, to = '') =>
    void commands.execute(`gpufit:${command}`, { job: id, to });
  const button = (action: Exclude<Verb, 'move'>) => (
    <Button
      key={action}
      text={WORDS[action].label}
      name={`${WORDS[action].label} ${name}`}
      why={can[action]}
      busy={sent === action || under_way.includes(action)}
      kind={action === 'stop' ? 'danger' : undefined}
      onClick={() => run(action)}
    />
  );
  return (
    <div className="jp-gpufit-buttons" role="group" aria-label={`Do with ${name}`}>
      {offered(job).map(verb =>
        verb === 'move' ? (
          <Move
            key={verb}
            name={name}
            targets={can.move}
            busy={sent === 'move' || under_way.includes('move')}
            onMove={to => run('move', to)}
          />
        ) : (
          button(verb)
        )
      )}
      {hasEnded(job) && (
        <Button
          text="Remove"
          name={`Remove ${name}`}
          why=""
          busy={sent === 'remove'}
          onClick={() => run('remove')}
        />
      )}
      {props.children}
      <Button
        text="Log"
        name={`Open log of ${name}`}
        why=""
        onClick={() => run('log')}
      />
    </div>
  );
}

/** "Move ▾": where it fits can be chosen, and elsewhere the reason stands. */
function Move(props: {
  name: string;
  targets: Target[];
  busy: boolean;
  onMove: (to: string) => void;
}): JSX.Element {
  const { name, targets, busy, onMove } = props;
  const { label } = WORDS.move;
  const [open, setOpen] = React.useState(false);
  const host = React.useRef<HTMLDivElement>(null);
  const menu = React.useRef<HTMLUListElement>(null);
  React.useEffect(() => {
    if (open) {
      items(menu.current)[0]?.focus();
      menu.current?.scrollIntoView({ block: 'nearest' });
    }
  }, [open]);
  const close = () => {
    setOpen(false);
    host.current?.querySelector('button')?.focus();
  };
  // One reason for all of them is the job's own.
  const first = targets[0] ?? { ok: false, reason: 'There is no other device.' };
  const same = ({ ok, reason }: Target) => !ok && reason === first.reason;
  const why = targets.every(same) ? first.reason : '';
  return (
    <div
      ref={host}
      className="jp-gpufit-move"
      onBlur={event => {
        if (!event.currentTarget.contains(event.relatedTarget as Node)) {
          setOpen(false);
        }
      }}
    >
      <button
        type="button"
        className="jp-gpufit-button"
        aria-haspopup="menu"
        aria-expanded={open}
        aria-busy={busy}
        data-busy={busy}
        aria-disabled={busy || why !== ''}
        aria-label={why ? `${label} ${name}: ${why}` : `${label} ${name}`}
        title={why}
        onClick={() => !busy && !why && setOpen(!open)}
      >
        {label} <span aria-hidden>▾</span>
      </button>
      {open && (
        <ul
          ref={menu}
          role="menu"
          aria-label={`${label} ${name} to`}
          className="jp-gpufit-menu"
          onKeyDown={event => {
            if (event.key === 'Escape') {
              close();
            } else if (steer(menu.current, event.key)) {
              event.preventDefault();
            }
          }}
        >
          {targets.map(({ device, ok, reason }) => (
            <li key={device} role="none">
              <button
                type="button"
                role="menuitem"
                tabIndex={-1}
                aria-disabled={!ok}
                onClick={() => {
                  if (ok) {
                    close();
                    onMove(device);
                  }
                }}
              >
                {deviceWords(device)}
                <span className="jp-gpufit-quiet">{reason}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function items(menu: HTMLElement | null): HTMLElement[] {
  return [...(menu?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
}

/** Go to another item by its key; also to one that is greyed, so that its reason is heard. */
function steer(menu: HTMLElement | null, key: string): boolean {
  const all = items(menu);
  const at = all.indexOf(document.activeElement as HTMLElement);
  const to = {
    ArrowDown: (at + 1) % all.length,
    ArrowUp: (at + all.length - 1) % all.length,
    Home: 0,
    End: all.length - 1
  }[key];
  if (to === undefined) {
    return false;
  }
  all[to]?.focus();
  return true;
}
