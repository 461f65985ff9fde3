/** Bytes, counts and durations as units.py writes them; but whole seconds, since what is shown here ticks. */

const NO_SECONDS = 600; // from here on nobody counts them

export function formatBytes(count: number): string {
  const units = ['TiB', 'GiB', 'MiB', 'KiB'];
  const found = units.findIndex((_, i) => count >= 1024 ** (4 - i));
  return found < 0
    ? `${count} B`
    : `${(count / 1024 ** (4 - found)).toFixed(1)} ${units[found]}`;
}

export function formatDuration(seconds: number): string {
  const whole = Math.floor(seconds);
  const scales: [number, string, number, string][] = [
    [86400, 'd', 3600, 'h'],
    [3600, 'h', 60, 'min'],
    [60, 'min', 1, 's']
  ];
  for (const [size, unit, smallerSize, smaller] of scales) {
    if (whole >= size) {
      const rest =
        smaller === 's' && whole >= NO_SECONDS
          ? 0
          : Math.floor((whole % size) / smallerSize);
      const large = `${Math.floor(whole / size)} ${unit}`;
      return rest > 0 ? `${large} ${rest} ${smaller}` : large;
    }
  }
  return `${whole} s`;
}

/** "step 12,345", in every language: as the command line writes it. */
export function stepWords(step: number): string {
  return `step ${formatCount(step)}`;
}

export function formatCount(count: number): string {
  return count.toLocaleString('en');
}

/** "30.4 of 36.0 GiB": the unit once where it is the same. */
export function outOf(used: number, total: number): string {
  const [some, unit] = formatBytes(used).split(' ');
  const all = formatBytes(total);
  return all.endsWith(` ${unit}`) ? `${some} of ${all}` : `${some} ${unit} of ${all}`;
}

/** A number of a loop as people read it: four digits, and no power of ten between 1e-4 and a million. */
export function formatFigure(value: number | null): string {
  if (value === null) {
    return 'not finite';
  }
  const [digits, power] = value.toExponential(3).split('e').map(Number);
  if (value !== 0 && (power < -4 || power > 5)) {
    const sign = power < 0 ? '-' : '+';
    return `${digits}e${sign}${String(Math.abs(power)).padStart(2, '0')}`;
  }
  return power > 3 ? formatCount(Math.round(value)) : String(Number(value.toPrecision(4)));
}

/** "14:02", "Nov 21, 14:02": a moment as the reader's own clock shows it. */
export function formatMoment(seconds: number, now: number): string {
  const [then, today] = [seconds, now].map(time => new Date(1000 * time));
  const clock = [then.getHours(), then.getMinutes()].map(part => String(part).padStart(2, '0')).join(':');
  if (then.toDateString() === today.toDateString()) {
    return clock;
  }
  const year = then.getFullYear() === today.getFullYear() ? '' : ` ${then.getFullYear()}`;
  const day = then.toLocaleDateString('en', { month: 'short', day: 'numeric' });
  return `${day}${year}, ${clock}`;
}

/** "2.1 steps/s", or "3.2 s/step" when a step takes longer than a second. */
export function formatPace(perSecond: number): string {
  return perSecond >= 1
    ? `${perSecond.toFixed(1)} steps/s`
    : `${(1 / perSecond).toFixed(1)} s/step`;
}

/** "GPU 1", "cpu:0", "GPU 0, 1 and 2": a device, or a job's several, as people say it. */
export function deviceWords(label: string): string {
  const words = label.replace(/, (?!.*, )/, ' and ');
  return /^[0-9]/.test(label) ? `GPU ${words}` : words;
}

/** "1st", "22nd". */
export function ordinal(number: number): string {
  const teens = [11, 12, 13].includes(number % 100);
  const ending = teens ? '' : { 1: 'st', 2: 'nd', 3: 'rd' }[number % 10];
  return `${number}${ending || 'th'}`;
}
